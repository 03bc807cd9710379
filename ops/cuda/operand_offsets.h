// Addresses of the operands of an index: an iteration space with steps for each operand.
#pragma once

#include <algorithm>

#include "shardproof/ops/elementwise/broadcast_iteration.h"

namespace shardproof {

// Gives the addresses of the operands' elements for an index.
template <int kOperands>
struct OperandOffsets {
  std::byte* bases[kOperands];
  DType dtypes[kOperands];
  int64_t count = 1;
  int dims = 1;
  int64_t sizes[BroadcastIteration::kMostDims];
  int64_t steps[kOperands][BroadcastIteration::kMostDims];

  constexpr void find(int64_t index, std::byte* (&at)[kOperands]) const {
    for (int k = 0; k < kOperands; ++k) at[k] = bases[k];
    for (int d = dims - 1; d > 0; --d) {
      const int64_t outer = index / sizes[d], here = index - outer * sizes[d];
      for (int k = 0; k < kOperands; ++k) at[k] += here * steps[k][d];
      index = outer;
    }
    for (int k = 0; k < kOperands; ++k) at[k] += index * steps[k][0];
  }
};

template <int kOperands>
OperandOffsets<kOperands> places_of(const KernelCall& call, int64_t first, int64_t lanes) {
  const LaneView* views[kOperands];
  // Absent inputs may follow those that the loop reads.
  const size_t inputs = static_cast<size_t>(kOperands) - call.outputs->size();
  for (size_t k = 0; k < kOperands; ++k)
    views[k] = k < inputs ? &(*call.inputs)[k] : &(*call.outputs)[k - inputs];
  const BroadcastIteration walk = walk_of(views, kOperands, call.outputs->front().shape, lanes);
  OperandOffsets<kOperands> places;
  places.dims = walk.dims;
  for (int d = 0; d < walk.dims; ++d) {
    places.sizes[d] = walk.sizes[static_cast<size_t>(d)];
    places.count *= places.sizes[d];
  }
  for (size_t k = 0; k < kOperands; ++k) {
    places.bases[k] = views[k]->at(first);
    places.dtypes[k] = views[k]->dtype;
    for (int d = 0; d < walk.dims; ++d) places.steps[k][d] = walk.steps[k][static_cast<size_t>(d)];
  }
  return places;
}

// Calls use(places) once for all lanes, or for each lane if a view has a table of slots.
template <int kOperands, typename Use>
void for_places(const KernelCall& call, const Use& use) {
  const Dims& shape = call.outputs->front().shape;
  if (call.lanes == 0 || std::count(shape.begin(), shape.end(), 0) > 0) return;
  const auto tabled = [](const LaneView& view) { return view.slots != nullptr; };
  if (std::none_of(call.inputs->begin(), call.inputs->end(), tabled) &&
      std::none_of(call.outputs->begin(), call.outputs->end(), tabled))
    return use(places_of<kOperands>(call, 0, call.lanes));
  for (int64_t lane = 0; lane < call.lanes; ++lane) use(places_of<kOperands>(call, lane, 1));
}

}  // namespace shardproof
