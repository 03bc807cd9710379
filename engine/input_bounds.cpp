#include "shardproof/engine/input_bounds.h"

#include <cmath>

#include "shardproof/engine/part_bounds.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {
namespace {

// Reductions that add: what they lose grows with the parts. Others lose by the value itself.
bool adds(const Placement& placement) {
  const ReduceOp op = placement.partial().reduction.op;
  return op == ReduceOp::sum || op == ReduceOp::avg;
}

// Coordinates along the partial axes.
std::vector<Dims> part_coordinates(const Spec& spec) {
  std::vector<Dims> all{Dims{}};
  for (const int axis : spec.partial_axes()) {
    std::vector<Dims> next;
    for (const Dims& at : all)
      for (int64_t i = 0; i < spec.mesh().axis_size(axis); ++i) {
        next.push_back(at);
        next.back().push_back(i);
      }
    all = std::move(next);
  }
  return all;
}

}  // namespace

Bound bound_of_parts(const Tensor& value, const Spec& spec, const LocalTensor& parts) {
  const Bound exact = Bound::exact_of(value);
  bool picks = true;  // min, max and bits never round
  int64_t terms = 1;
  double shares = 1;  // an average weighs each part so
  bool additive = true, scales_exactly = true;
  for (const int axis : spec.partial_axes()) {
    const ReduceOp op = spec.placement(axis).partial().reduction.op;
    picks = picks && op != ReduceOp::sum && op != ReduceOp::avg && op != ReduceOp::prod &&
            op != ReduceOp::norm;
    additive = additive && adds(spec.placement(axis));
    terms *= spec.mesh().axis_size(axis);
    if (op == ReduceOp::avg) shares /= static_cast<double>(spec.mesh().axis_size(axis));
    scales_exactly = scales_exactly && !scales_inexactly(spec, axis);
  }
  if (picks || !is_floating(spec.dtype())) return exact;
  const std::vector<double> expected = values_of(value);
  std::vector<double> sizes(expected.size(), 0), sums(expected.size(), 0);
  double largest = 0;
  int grid = exact.grid;
  for (const Dims& at : part_coordinates(spec)) {
    const Tensor part = assemble_part(parts, spec, at);
    grid = std::min(grid, Bound::exact_of(part).grid);
    const std::vector<double> values = values_of(part);
    for (size_t i = 0; i < values.size(); ++i) {
      sizes[i] += std::abs(values[i]);
      sums[i] += values[i];
      largest = std::max(largest, sizes[i]);
    }
  }
  bool same = true;
  for (size_t i = 0; i < sums.size(); ++i) same = same && sums[i] * shares == expected[i];
  Bound bound = exact;
  if (additive) bound.reach = sizes;
  if (additive && same && scales_exactly && representable(largest, grid, spec.dtype())) {
    keep_grid_visible(bound.reach, grid);
    return bound;
  }
  const double lost = gamma(2 * terms, unit_roundoff(spec.dtype()));
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = additive ? lost * sizes[i] * shares + std::abs(sums[i] * shares - expected[i])
                        : lost * std::abs(expected[i]);
  bound.exact = false;
  bound.error = std::move(sizes);
  return bound;
}

std::vector<Bound> input_bounds(const Job& job) {
  std::vector<Bound> bounds;
  for (const JobInput& input : job.inputs)
    bounds.push_back(input.spec.has_partial() ? bound_of_parts(input.data, input.spec,
                                                               split(input.data, input.spec,
                                                                     PartialFill::exact, job.seed))
                                              : Bound::exact_of(input.data));
  return bounds;
}

}  // namespace shardproof
