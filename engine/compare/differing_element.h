// DifferingElement: the first element in which replicas of a value differ, for the finding
// `replicas differ`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// Two ranks that should hold the same elements.
struct ReplicaPair {
  const Block* a = nullptr;
  const Block* b = nullptr;
  int64_t lane_a = 0, lane_b = 0;  // in the lanes of the blocks
};

struct DifferingElement {
  int64_t first = 0;  // row-major global index
  int64_t count = 0;  // differing elements, each counted once
  // The values of the replicas at `first`, with all digits of the dtype, in order of their first
  // ranks.
  std::vector<std::pair<std::string, Lanes>> held;
};

// Returns nullopt if no pair differs, or a shape is not the one that `spec` gives to its rank.
// Elements are equal if their bits are, or if both are NaN, as in bit_equal. Linear in the elements
// of the pairs of different copies.
std::optional<DifferingElement> find_differing_element(const std::vector<ReplicaPair>& pairs,
                                                       const LocalTensor& value, const Spec& spec);

}  // namespace shardproof
