// Expect: what a run must find, as the `expect` of a scenario says it; and what of that a run
// missed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/condition.h"

namespace shardproof {

// A condition for some ranks each.
struct RankCondition {
  Lanes lanes;
  Condition condition;
};
// "all_gather tp": calls of a kind, over any group when `group` is empty.
struct ExpectCalls {
  std::string kind, group;
  std::vector<RankCondition> counts;
};
struct ExpectBytes {
  std::string group;
  std::vector<RankCondition> bytes;
};
struct ExpectShapes {
  std::string name;
  std::vector<LocalShape> shapes;
};
struct ExpectPlacements {
  std::string name, text;
};
struct ExpectValues {
  std::string name;
  std::optional<Condition> each;  // when one condition is for all elements,
  std::optional<Number> all;      // or one number is
  Dims shape;
  std::vector<Number> elements;  // row-major
};

struct Expect {
  Verdict verdict = Verdict::clean;
  std::optional<Condition> line, ratio, call, time, peak;
  std::optional<Condition> findings, undecided;  // how many there are
  std::optional<Lanes> ranks;
  std::string name, error;
  bool any_collectives = true;  // `collectives` is not given
  std::vector<ExpectCalls> collectives;
  std::vector<ExpectBytes> bytes;
  std::vector<ExpectShapes> local;
  std::vector<ExpectPlacements> placements;
  std::vector<ExpectValues> values;

  std::vector<std::string> kept_names() const;  // values that the run must keep
};

// One thing that was not as expected.
struct ExpectationFailure {
  std::string what, expected, got;  // "calls of all_gather tp by ranks 0-7", "1", "2"
  bool operator==(const ExpectationFailure&) const = default;
};

// Everything that `outcome` misses; empty when the expectation is met.
std::vector<ExpectationFailure> missed(const Expect& expect, const Outcome& outcome,
                                       const Job& job);
// The same for a run that was refused.
std::vector<ExpectationFailure> missed(const Expect& expect, const Error& error);

}  // namespace shardproof
