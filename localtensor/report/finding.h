// Finding: one statement about the user's program, with its place and its fix. A report lists
// findings, and the `expect` of a scenario is compared with them. A Finding is a value, never an
// exception.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/lanes.h"

namespace shardproof {

enum class Verdict : uint8_t {
  clean,
  wrong_values,
  replicas_differ,
  mismatch,
  deadlock,
  missing_rank,
  not_a_member,
  race,
  leak,
  unwritten_redistribution,
  out_of_memory,
  bad_checkpoint,
  imprecise,        // right, but far less precise than one device; any other verdict has priority
  backends_differ,  // two backends of one run find different verdicts
  bad_input,
};
inline constexpr int kVerdictCount = 15;

std::string_view name(Verdict verdict);  // "wrong values", as scenarios write it
std::optional<Verdict> parse_verdict(std::string_view text);  // inverse of name

struct Finding {
  Verdict verdict = Verdict::clean;
  int line = 0;                      // in the program's array, from 1; 0: none
  Lanes ranks;                       // the ranks concerned, by the rule of each verdict
  std::string name = {};             // name of the value
  std::optional<double> ratio;       // found / expected, for wrong values
  std::string group;                 // text of the call's group
  int64_t call = 0;                  // number in the group, from 1; 0: no call
  std::string headline;              // one sentence in the user's own names
  std::vector<std::string> details;  // lines below it
  std::string fix;                   // next step, or empty
  std::string instance;              // "layer 3, step 2": the pass of a loop or model
  // For wrong values: the first wrong element "q[0, 0]", and its two values as the headline has
  // them.
  std::string element = {}, expected = {}, got = {};
  bool operator==(const Finding&) const = default;
};

// Returns the finding that gives a case its verdict: the first that is not `imprecise`, else the
// first; null if there is none. Requires `findings` in order of importance.
const Finding* leading_finding(const std::vector<Finding>& findings);

// Returns one line of key=value pairs (key_value_text.h); empty fields are left out.
std::string to_string(const Finding& finding);
// Returns the inverse of to_string. Throws Error(bad_input) for an unknown field or value.
Finding parse_finding(std::string_view text);

}  // namespace shardproof
