// RecordedValue: a compared value of a run, with what the ranks held, its digests and its measured
// rounding. `--record` writes these, and `shardproof compare` compares two runs by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// One tensor that each of some ranks holds.
struct RecordedShard {
  Lanes lanes;
  Tensor tensor;
  // The measured rounding of this part's elements, as in RecordedValue. Set if the value is not
  // whole.
  std::vector<double> rounding = {};
};

// A digest of the shard that each of these ranks holds. It is the sum over elements of a hash of
// global index and bits, modulo 2^64. So the digests of disjoint shards add up.
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
  Lanes lanes;               // ranks that hold it
  std::optional<Spec> spec;  // none: not known
  // Filled if the author gave the value a name. If `whole`, one part holds the assembled value,
  // with partial sums of floats added in f64. Otherwise the parts are the ranks' tensors, because
  // there is no spec or replicas differ.
  std::vector<RecordedShard> parts;
  bool whole = false;
  std::vector<ShardDigest> digests;  // on disjoint lanes
  // The measured rounding of each element of a whole value, row-major (check/measure_rounding.h).
  // If `measured` and empty, the value is exact: no rounding changes it. An infinite entry states
  // that the rounding of this element is not known.
  bool measured = false;
  std::vector<double> rounding;
  bool added = false;  // made from a sum of floats over ranks, which another order may change
};

}  // namespace shardproof
