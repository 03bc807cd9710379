// SeenValue: a value that a run compared, as the run made it. A recorded run keeps these, and two
// runs of one program are compared by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/local_tensor.h"
#include "shardproof/localtensor/spec.h"
#include "shardproof/ops/bound.h"
#include "shardproof/program/spmd_program.h"

namespace shardproof {

// What some ranks hold, all of them the same.
struct SeenPart {
  Lanes lanes;
  Tensor tensor;
  // As SeenValue::error, of a part of a value whose spec nobody knows.
  std::vector<double> error = {};
};
// Of the shard that each of these ranks holds: a sum over its elements of a mix of global index and
// bits, modulo 2^64, so that digests of disjoint shards add up.
struct SeenDigest {
  Lanes lanes;
  uint64_t digest = 0;
  bool operator==(const SeenDigest&) const = default;
};

struct SeenValue {
  std::string id;     // unique in the run: "h", "h.1", "_3", "h@0-3"
  std::string bound;  // the author's name; "" for a value inside a line
  int line = 0;
  std::string instance;  // "i=2"
  DType dtype = DType::f32;
  Lanes lanes;               // that hold it
  std::optional<Spec> spec;  // how they hold it, when known
  // Of a value with an author's name. `whole`: one part, all of the value, assembled, partial sums
  // of floats added in f64. Else what the ranks hold, because there is no spec or replicas differ.
  std::vector<SeenPart> parts;
  bool whole = false;
  std::vector<SeenDigest> digests;  // disjoint lanes
  // How far an honest computation may lie from the real value, of a whole value, row-major; empty:
  // nowhere. Without `bounded` nobody knows.
  bool bounded = false;
  std::vector<double> error;
  bool added = false;  // made from a sum of floats over ranks, whose order may be another one
};

// `value`: of all ranks that hold it, partial sums as they are. `bound` may be null.
SeenValue see_value(const SpmdValue& info, const std::optional<Spec>& spec,
                    const LocalTensor& value, const Bound* bound);

// What the ranks hold, each stored copy once, in order of their first ranks.
std::vector<SeenPart> each_copy(const LocalTensor& value);

// Bounds a value without a spec by the errors of each rank's elements (error_program.h): f64, of
// the value's shapes. Stays unbounded where they are not those of all its ranks.
void bound_copies(SeenValue& seen, const LocalTensor& errors);

}  // namespace shardproof
