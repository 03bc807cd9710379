// CollectedParts: a value that ranks make part by part. With N cohorts of one rank, adding all
// parts takes N log N time; LocalTensor::merged_with for each part would take N^2. Not thread-safe.
#pragma once

#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

class CollectedParts {
 public:
  // Adds a part; its lanes replace those of earlier parts. Data is shared.
  void add(LocalTensor part);
  // Returns at least the number of lanes that whole() has. Constant time.
  int64_t most_lanes() const { return most_lanes_; }
  // Returns all parts as one value; empty without a part. Valid until the next `add`.
  const LocalTensor& whole() const;

 private:
  // Parts merged so far, older ones first. Each has more blocks than the next one.
  mutable std::vector<LocalTensor> merged_;
  mutable int64_t most_lanes_ = 0;  // lanes of all merged parts
};

}  // namespace shardproof
