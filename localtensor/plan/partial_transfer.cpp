// Implements partial_transfer.h: compares, rank by rank, the box that it owns and the first rank of
// those whose partials add up to its value.
#include "shardproof/localtensor/plan/partial_transfer.h"

#include <map>
#include <optional>

#include "shardproof/localtensor/placement/owned_box.h"

namespace shardproof {

namespace {

std::vector<int> adding_axes(const Spec& spec) {
  std::vector<int> axes;
  for (int axis : spec.partial_axes())
    if (spec.mesh().axis_size(axis) > 1) axes.push_back(axis);
  return axes;
}

// Returns the reduction of all partials of a spec; nullopt if there are none or several.
std::optional<Reduction> only_reduction(const Spec& spec) {
  std::optional<Reduction> only;
  for (int axis : adding_axes(spec)) {
    const Reduction& reduction = spec.placement(axis).partial().reduction;
    if (only && *only != reduction) return std::nullopt;
    only = reduction;
  }
  return only;
}

// Returns, for each rank, the least rank of those whose partials add up with its own.
std::map<int32_t, int32_t> first_of_sum(const Spec& spec) {
  const Dims shape = spec.mesh().shape();
  std::map<std::vector<int64_t>, int32_t> least;
  std::map<int32_t, std::vector<int64_t>> sums;
  for (int64_t i = 0; i < spec.mesh().size(); ++i) {
    Dims coordinate = unravel(i, shape);
    const int32_t rank = spec.mesh().rank_at(coordinate);
    for (int axis : adding_axes(spec)) coordinate[axis] = 0;
    const std::vector<int64_t> sum(coordinate.begin(), coordinate.end());
    const auto [known, fresh] = least.try_emplace(sum, rank);
    known->second = std::min(known->second, rank);
    sums[rank] = sum;
  }
  std::map<int32_t, int32_t> first;
  for (const auto& [rank, sum] : sums) first[rank] = least.at(sum);
  return first;
}

}  // namespace

bool has_same_partials(const Spec& from, const Spec& to) {
  const Lanes ranks = from.mesh().ranks();
  if (!(ranks == to.mesh().ranks())) return false;
  const std::optional<Reduction> before = only_reduction(from), after = only_reduction(to);
  if (!before || !after || *before != *after) return false;
  if (first_of_sum(from) != first_of_sum(to)) return false;
  for (int64_t i = 0; i < ranks.size(); ++i)
    if (owned_box(from, *from.mesh().coordinate_of(ranks[i])) !=
        owned_box(to, *to.mesh().coordinate_of(ranks[i])))
      return false;
  return true;
}

}  // namespace shardproof
