// Implements ops/elementwise/broadcast_iteration.h. Dims of size 1 are dropped. A dim is merged
// into the one before it if the strides of every operand allow it.
#include "shardproof/ops/elementwise/broadcast_iteration.h"

namespace shardproof {
namespace {

void push_dim(BroadcastIteration& walk, int operands, int64_t size, const int64_t* steps) {
  if (size == 1) return;
  // Outer dims come first. This dim merges into the previous one if one step there spans it
  // exactly.
  const int last = walk.dims - 1;
  bool joins = last >= 0;
  for (int k = 0; joins && k < operands; ++k)
    joins = walk.steps[static_cast<size_t>(k)][static_cast<size_t>(last)] == steps[k] * size;
  const int at = joins ? last : walk.dims++;
  walk.sizes[static_cast<size_t>(at)] = joins ? walk.sizes[static_cast<size_t>(at)] * size : size;
  for (int k = 0; k < operands; ++k)
    walk.steps[static_cast<size_t>(k)][static_cast<size_t>(at)] = steps[k];
}

int64_t step_of(const LaneView& view, int dim, int dims) {
  const int own = dim - (dims - view.shape.size());
  if (own < 0 || view.shape[own] == 1) return 0;
  return view.strides[own] * size_of(view.dtype);
}

}  // namespace

BroadcastIteration walk_of(const LaneView* const* views, int count, const Dims& shape,
                           int64_t lanes) {
  BroadcastIteration walk;
  std::array<int64_t, BroadcastIteration::kMostOperands> steps{};
  for (int k = 0; k < count; ++k) steps[static_cast<size_t>(k)] = views[k]->lane_stride;
  push_dim(walk, count, lanes, steps.data());
  for (int d = 0; d < shape.size(); ++d) {
    for (int k = 0; k < count; ++k)
      steps[static_cast<size_t>(k)] = step_of(*views[k], d, shape.size());
    push_dim(walk, count, shape[d], steps.data());
  }
  if (walk.dims > 0) return walk;
  walk.dims = 1;
  walk.sizes[0] = 1;
  for (int k = 0; k < count; ++k) walk.steps[static_cast<size_t>(k)][0] = size_of(views[k]->dtype);
  return walk;
}

}  // namespace shardproof
