// RecordedValue: a value that a run compared, as the run made it. A recorded run keeps these, and
// two runs of one program are compared by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// What some ranks hold, all of them the same.
struct RecordedShard {
  Lanes lanes;
  Tensor tensor;
  // Like RecordedValue::rounding, of a part of a value that is not whole.
  std::vector<double> rounding = {};
};
// Of the shard that each of these ranks holds: a sum over its elements of a mix of global index and
// bits, modulo 2^64, so that digests of disjoint shards add up.
struct ShardDigest {
  Lanes lanes;
  uint64_t digest = 0;
  bool operator==(const ShardDigest&) const = default;
};

struct RecordedValue {
  std::string id;     // unique in the run: "h", "h.1", "_3", "h@0-3"
  std::string bound;  // the author's name; "" for a value inside a line
  int line = 0;
  std::string instance;  // "i=2"
  DType dtype = DType::f32;
  Lanes lanes;               // that hold it
  std::optional<Spec> spec;  // how they hold it, when known
  // Of a value with an author's name. `whole`: one part, all of the value, assembled, partial sums
  // of floats added in f64. Else what the ranks hold, because there is no spec or replicas differ.
  std::vector<RecordedShard> parts;
  bool whole = false;
  std::vector<ShardDigest> digests;  // disjoint lanes
  // The measured rounding of each element (compare/measure_rounding.h): of a whole value,
  // row-major. Empty and `measured`: exact, no rounding moves the value. Infinite: nothing is known
  // of that element.
  bool measured = false;
  std::vector<double> rounding;
  bool added = false;  // made from a sum of floats over ranks, whose order may be another one
};

// `value`: of all ranks that hold it, partial sums as they are. Its rounding is not measured here.
RecordedValue record_value(const SpmdValue& info, const std::optional<Spec>& spec,
                           const LocalTensor& value);

// What the ranks hold, each stored copy once, in order of their first ranks.
std::vector<RecordedShard> each_copy(const LocalTensor& value);

}  // namespace shardproof
