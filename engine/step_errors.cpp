#include "shardproof/engine/step_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/owned_elements.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The greatest error of each element among the ranks of one place on the partial axes.
using OfPlace = std::map<Dims, std::vector<double>>;

std::optional<OfPlace> greatest_by_place(const LocalTensor& errors, const Spec& spec) {
  const auto elements = static_cast<size_t>(element_count(spec.shape()));
  OfPlace places;
  std::set<std::tuple<const Block*, int64_t, Dims, Dims>> seen;
  for (const Block& block : errors.blocks()) {
    if (!has_contents(block.tensor)) return std::nullopt;
    const Tensor dense = block.tensor.contiguous() ? block.tensor : contiguous_copy(block.tensor);
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const int32_t rank = block.lanes[i];
      if (!(spec.local_shape(rank) == dense.shape)) return std::nullopt;
      Dims place;
      for (const int axis : spec.partial_axes())
        place.push_back((*spec.mesh().coordinate_of(rank))[axis]);
      if (!seen.emplace(&block, block.slot(i), place_of_shard(spec, rank), place).second) continue;
      std::vector<double>& greatest = places[place];
      greatest.resize(elements, 0);
      const auto* own = reinterpret_cast<const double*>(dense.data(block.slot(i)));
      for_each_element(local_indices(spec, rank), contiguous_strides(spec.shape()),
                       [&](int64_t local, int64_t global) {
                         double& error = greatest[static_cast<size_t>(global)];
                         error = std::max(error, own[local]);
                       });
    }
  }
  return places;
}

// Whether most of what the truth has came to nothing, as gradients do in f16 whose loss was not
// scaled. A single number may cancel.
bool is_lost(const Bound& bound, const std::vector<double>& expected,
             const std::vector<double>& held) {
  double lost = 0, there = 0;
  int64_t elements = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double size = std::fabs(expected[i]);
    if (!std::isfinite(size) || !(size > error_of(bound, static_cast<int64_t>(i)))) continue;
    there += size;
    if (held[i] != 0) continue;
    lost += size;
    ++elements;
  }
  return elements > 1 && lost > there / 2;
}

}  // namespace

std::optional<std::vector<double>> errors_of_whole(const LocalTensor& errors, const Spec& spec) {
  const std::optional<OfPlace> places = greatest_by_place(errors, spec);
  if (!places || places->empty()) return std::nullopt;
  bool adds = false, picks = true;
  double share = 1;
  for (const int axis : spec.partial_axes()) {
    const ReduceOp op = spec.placement(axis).partial().reduction.op;
    adds = op == ReduceOp::sum || op == ReduceOp::avg;
    picks = op == ReduceOp::min || op == ReduceOp::max;
    if (op == ReduceOp::avg) share /= static_cast<double>(spec.mesh().axis_size(axis));
  }
  std::vector<double> whole(places->begin()->second.size(), 0);
  for (const auto& [place, greatest] : *places)
    for (size_t i = 0; i < whole.size(); ++i) {
      if (adds)
        whole[i] += greatest[i] * share;
      else if (picks)
        whole[i] = std::max(whole[i], greatest[i]);
      else if (greatest[i] != 0)
        whole[i] = kInfinity;
    }
  return whole;
}

Bound with_step_errors(const Bound& bound, const Tensor& truth, const std::vector<double>& steps,
                       const std::vector<double>& held) {
  const std::vector<double> expected = values_of(truth);
  const bool lost = is_lost(bound, expected, held);
  std::vector<double> errors(expected.size());
  for (size_t i = 0; i < errors.size(); ++i) {
    errors[i] = error_of(bound, static_cast<int64_t>(i));
    const bool unexplained =
        (std::isfinite(expected[i]) && !std::isfinite(held[i])) || (lost && held[i] == 0);
    // Half of the sum: two results lie within twice a bound.
    if (!unexplained) errors[i] = std::max(errors[i], (errors[i] + steps[i]) / 2);
  }
  Bound wider = bound_from_errors(truth, std::move(errors));
  wider.reach = bound.reach;
  return wider;
}

}  // namespace shardproof
