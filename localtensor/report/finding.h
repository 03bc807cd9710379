// Finding: something true about the user's program that the user should know. A value in the
// report, never an exception; what an `expect` is compared with.
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
  imprecise,  // the same mathematics, but far less precise than one device: behind all others
  bad_input,
};
inline constexpr int kVerdictCount = 14;

std::string_view name(Verdict verdict);  // "wrong values", as scenarios write it
std::optional<Verdict> parse_verdict(std::string_view text);

struct Finding {
  Verdict verdict = Verdict::clean;
  int line = 0;                      // in the program's array; 0: none
  Lanes ranks;                       // those it is about, by the rule of each verdict
  std::string name = {};             // the value
  std::optional<double> ratio;       // got / expected, of wrong values
  std::string group;                 // text of the call's group
  int64_t call = 0;                  // number in the group, from 1; 0: no call
  std::string headline;              // one sentence in the user's own names
  std::vector<std::string> details;  // lines below it
  std::string fix;                   // next step, or empty
  std::string instance;              // "layer 3, step 2": which pass of a loop or model
  bool operator==(const Finding&) const = default;
};

// The finding that gives a case its verdict, of those in order of importance: the first that is not
// `imprecise`, else the first. Null: there is none.
const Finding* leading_finding(const std::vector<Finding>& findings);

// One line of key=value pairs, what is empty left out; and back, with Error(bad_input).
std::string to_string(const Finding& finding);
Finding parse_finding(std::string_view text);

}  // namespace shardproof
