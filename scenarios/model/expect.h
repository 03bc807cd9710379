// Expect: the `expect` of a scenario. run/check_expectations.h compares a run with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/syntax/condition.h"

namespace shardproof {

// A condition that each of some ranks must meet.
struct RankCondition {
  Lanes lanes;
  Condition condition;
};
// Numbers of calls of one kind, over one group, or over any group if `group` is empty.
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
  std::vector<std::string> paths = {};  // of `shapes`: JSON pointers, for errors
};
struct ExpectPlacements {
  std::string name, text;
  std::string path;  // JSON pointer, for errors
};
struct ExpectValues {
  std::string name;
  std::optional<Condition> each;  // one condition for all elements,
  std::optional<Number> all;      // or one number for all elements,
  Dims shape;
  std::vector<Number> elements;        // or all elements of `shape`, row-major
  std::vector<double> imaginary = {};  // imaginary parts of `elements`, or of `all`; empty: 0
  std::string path = {};               // JSON pointer, for errors
};

struct Expect {
  Verdict verdict = Verdict::clean;
  std::optional<Condition> line, ratio, call, time, peak;
  std::optional<Condition> findings, undecided;  // numbers of findings, of values not decided
  std::optional<Lanes> ranks;
  std::string name, error;
  std::string time_path;        // JSON pointer of `time`, for errors
  bool any_collectives = true;  // true: `collectives` is not given
  std::vector<ExpectCalls> collectives;
  std::vector<ExpectBytes> bytes;
  std::vector<ExpectShapes> local;
  std::vector<ExpectPlacements> placements;
  std::vector<ExpectValues> values;

  // Returns the names in `values`, whose contents the run must keep.
  std::vector<std::string> kept_names() const {
    std::vector<std::string> names;
    for (const ExpectValues& wanted : values) names.push_back(wanted.name);
    return names;
  }
};

}  // namespace shardproof
