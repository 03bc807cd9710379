// Walk: the iteration space of an op whose operands broadcast to one shape: lanes, then dims,
// merged where all operands allow it. Only the first `dims` entries are ever set: clearing the rest
// would cost as much as a small op.
#pragma once

#include <array>

#include "shardproof/ops/core/kernel.h"

namespace shardproof {

struct BroadcastIteration {
  static constexpr int kMostOperands = 8, kMostDims = Dims::kCapacity + 1;
  int dims = 0;  // at least 1 when made by walk_of
  std::array<int64_t, kMostDims> sizes;
  std::array<std::array<int64_t, kMostDims>, kMostOperands> steps;  // bytes, of each operand
};

// `lanes` lanes of `count` operands that broadcast to `shape`; no operand has a table of slots.
BroadcastIteration walk_of(const LaneView* const* views, int count, const Dims& shape,
                           int64_t lanes);

}  // namespace shardproof
