// The iteration space of an op whose operands broadcast to one shape (PyTorch: TensorIterator):
// lanes, then dims, merged where all operands allow it. Only the first `dims` entries are set;
// clearing the rest would cost as much as a small op.
#pragma once

#include <array>

#include "shardproof/ops/core/kernel.h"

namespace shardproof {

struct BroadcastIteration {
  static constexpr int kMostOperands = 8, kMostDims = Dims::kCapacity + 1;
  int dims = 0;  // walk_of() gives 1 at least
  std::array<int64_t, kMostDims> sizes;
  std::array<std::array<int64_t, kMostDims>, kMostOperands> steps;  // in bytes, for each operand
};

// Returns the space of `lanes` lanes of `count` operands that broadcast to `shape`. Requires 8
// operands at most, none with a table of slots.
BroadcastIteration walk_of(const LaneView* const* views, int count, const Dims& shape,
                           int64_t lanes);

}  // namespace shardproof
