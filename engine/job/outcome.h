// Outcome: what came out of a checked job, as plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/engine/job/recorded_value.h"
#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A named value as it was last bound.
struct ValueInfo {
  DType dtype = DType::f32;
  std::vector<LocalShape> shapes;
  std::optional<Spec> spec;     // when known
  std::optional<Tensor> value;  // assembled, when kept
  // When kept and ranks hold something else each: in order of their first ranks, assembled where
  // the spec is known.
  std::vector<RecordedShard> copies = {};
};

// Calls of some ranks: kind and the group's name ("tp", "dp+tp", "world", an author's name).
struct CallCount {
  Lanes lanes;
  std::string kind, group;
  int64_t count = 0;
  Fraction bytes;  // sent by each of these ranks
};

// A value some of whose elements hang on a rounding: nothing is stated about these.
struct UndecidedValue {
  std::string name;  // the author's; "" for a value inside a line
  int line = 0;
  std::string instance;  // "i=3"
  int64_t elements = 0, of = 0;
  std::string reason;  // one sentence
};

// The rounding error of the ranks on one value beside that of one device on the same inputs, both
// in the program's own dtypes. Errors are shares of the value's largest element; a rank that holds
// an infinity or a NaN where one device holds a number has an infinite error.
struct ValuePrecision {
  std::string name;  // as above
  int line = 0;
  std::string instance;
  double ratio = 0;  // of the ranks' error to the largest of device_error, one unit of the value
                     // and one unit of the terms that it is a sum of
  double error = 0, device_error = 0;
  std::string cause;  // one sentence, or empty
};

struct Outcome {
  std::vector<Finding> findings;  // in order of importance; empty: clean
  WorldReport world;
  std::vector<CallCount> calls;  // sorted by kind, group, lanes
  std::map<std::string, ValueInfo> values;
  int64_t values_compared = 0;
  // Of a job that sees: its values in program order, and what ranks ran, as printed.
  std::vector<RecordedValue> seen;
  std::vector<std::string> program;
  std::vector<WorldReport> timed;  // each counted repetition
  // Ops that ran on the host although the ranks had a device, in order of their names.
  std::vector<std::string> on_host;
  // Faults that no rank met though it came to its end: "hang(rank=3, call=9): rank 3 makes 4
  // calls".
  std::vector<std::string> unfired_faults;
  std::vector<UndecidedValue> undecided;  // in program order
  // Values whose ratio is kPrecisionNote or more, or all that were asked for by
  // Job::precision_limits; in program order.
  std::vector<ValuePrecision> precision;
  // Limits of the judgement that a reader must know of: "lines from 7 on are judged in their own
  // dtypes: ...".
  std::vector<std::string> notes;
};

inline constexpr double kPrecisionNote = 32;     // a ratio that every report mentions
inline constexpr double kPrecisionLimit = 1024;  // a greater ratio is the verdict `imprecise`

// Whether some listing never came to its end.
bool stands_still(const std::vector<Finding>& findings);

}  // namespace shardproof
