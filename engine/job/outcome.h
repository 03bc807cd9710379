// Outcome: the result of a checked job as plain values: findings, calls, named values, times, and
// notes about the limits of the judgement.
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

// A named value at its last binding.
struct ValueInfo {
  DType dtype = DType::f32;
  std::vector<LocalShape> shapes;
  std::optional<Spec> spec;     // none: not known
  std::optional<Tensor> value;  // assembled; set if Job::keep names it and replicas agree
  // Set if Job::keep names it, in order of first ranks: values of ranks that differ, assembled if
  // the spec is known. If `value` is partial, these are the part of each rank.
  std::vector<RecordedShard> copies = {};
  // The tensors of the ranks that a declared output ("R on 2-3") omits.
  std::vector<RecordedShard> elsewhere = {};
};

// Calls of one kind on one group that each of some ranks has made. Names of groups: "tp", "dp+tp",
// "world", or a name that the author gives.
struct CallCount {
  Lanes lanes;
  std::string kind, group;
  int64_t count = 0;
  Fraction bytes;  // sent by each of these ranks
};

// A value with elements that depend on the direction of a rounding. The judgement states nothing
// about these elements.
struct UndecidedValue {
  std::string name;  // the author's; "" for a value inside a line
  int line = 0;
  std::string instance;  // "i=3"
  int64_t elements = 0, of = 0;
  std::string reason;  // one sentence
};

// The rounding error of the ranks on one value and that of one device on the same inputs, both in
// the program's own dtypes. Errors are shares of the value's largest element. If a rank holds an
// infinity or a NaN and one device a number, the error is infinite.
struct ValuePrecision {
  std::string name;  // as UndecidedValue::name
  int line = 0;
  std::string instance;
  // The ranks' error divided by the largest of three: device_error, one unit of the value, one unit
  // of its terms.
  double ratio = 0;
  double error = 0, device_error = 0;
  std::string cause;  // one sentence, or empty
  // For integers and bools: the elements that differ from one device, which rounds nothing there,
  // of how many, and the largest difference. 0 for floats.
  int64_t unequal = 0, of = 0;
  double difference = 0;
};

struct Outcome {
  std::vector<Finding> findings;  // in order of importance; empty: clean
  WorldReport world;
  std::vector<CallCount> calls;  // sorted by kind, group, lanes
  std::map<std::string, ValueInfo> values;
  int64_t values_compared = 0;
  // Filled if Job::records_values: the compared values in program order, and the printed rank
  // program.
  std::vector<RecordedValue> recorded;
  std::vector<std::string> program;
  std::vector<std::vector<Record>> timed;  // calls and works of each counted repetition
  // Ops that ran on the host although the ranks had a device, sorted by name.
  std::vector<std::string> on_host;
  // Faults that did not occur although their rank ended: "hang(rank=3, call=9): rank 3 makes 4
  // calls".
  std::vector<std::string> unfired_faults;
  std::vector<UndecidedValue> undecided;  // in program order
  // In program order. Holds values with a ratio of kPrecisionNote or more, values that the ranks
  // reduce in a narrower dtype, and the names in Job::precision_limits.
  std::vector<ValuePrecision> precision;
  // Limits of the judgement, for every report: "lines from 7 on are judged in their own dtypes:
  // ...".
  std::vector<std::string> notes;
};

inline constexpr double kPrecisionNote = 32;     // a ratio that every report mentions
inline constexpr double kPrecisionLimit = 1024;  // a greater ratio is the verdict `imprecise`
// A noted ratio with an error of this share of the largest element is a finding too. In bf16 and f8
// even the loss of the whole value is a ratio below kPrecisionLimit.
inline constexpr double kLostShare = 0.5;

// True if a finding states that some listing did not end: a deadlock or a rank that stopped.
bool has_unfinished_ranks(const std::vector<Finding>& findings);

}  // namespace shardproof
