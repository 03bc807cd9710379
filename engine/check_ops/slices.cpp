// Implements slices.h.
#include "shardproof/engine/check_ops/slices.h"

#include <map>

namespace shardproof {
namespace {

std::vector<int32_t> positions_of(const Spec& spec, int64_t rank) {
  const Dims& shape = spec.shape();
  const Dims strides = contiguous_strides(shape);
  std::vector<int32_t> positions = {0};
  for (int dim = 0; dim < shape.size(); ++dim) {
    std::vector<int32_t> longer;
    const Runs runs = spec.owned(rank, dim);
    for (const int32_t base : positions)
      for (const Run& run : runs)
        for (int64_t i = run.start; i < run.start + run.length; ++i)
          longer.push_back(base + static_cast<int32_t>(i * strides[dim]));
    positions = std::move(longer);
  }
  return positions;
}

}  // namespace

Slices slices_of(const Spec& spec) {
  Slices slices;
  slices.spec = spec;
  const std::vector<int> partial = spec.partial_axes();
  slices.is_partial = !partial.empty();
  for (const int axis : partial) {
    const Reduction& reduction = spec.placement(axis).partial().reduction;
    slices.reduction = reduction;
    if (reduction.op != ReduceOp::avg) continue;
    slices.reduction.op = ReduceOp::sum;
    slices.divisor *= spec.mesh().axis_size(axis);
  }
  std::map<Dims, size_t> group_of;  // key: the coordinate without the partial axes
  for (int64_t rank = 0; rank < spec.mesh().size(); ++rank) {
    slices.shapes.push_back(spec.local_shape(rank));
    slices.positions.push_back(positions_of(spec, rank));
    Dims place = *spec.mesh().coordinate_of(rank);
    for (const int axis : partial) place[axis] = 0;
    const auto [found, added] = group_of.try_emplace(place, slices.groups.size());
    if (added) slices.groups.emplace_back();
    std::vector<int32_t>& group = slices.groups[found->second];
    slices.part_of.push_back(static_cast<int32_t>(group.size()));
    group.push_back(static_cast<int32_t>(rank));
  }
  return slices;
}

}  // namespace shardproof
