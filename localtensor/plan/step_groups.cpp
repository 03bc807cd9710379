// Implements PaddedCounts of step_groups.h.
//
// A message is a product of one extent a dim. Different axes cut different dims, so the largest
// message of a group has the largest extent of each dim among the members. For each dim:
//
//   1. The axes that cut it are members (axes of the step) or fixed (the others).
//   2. For each coordinate of the fixed axes, take the largest extent over all coordinates of the
//      members. In an all_to_all, take it over all pairs of a sender and a receiver.
//   3. If all these extents are equal, the dim depends on no axis.
//
// Example: dim of 5, axes a=2 and b=2, "a:S(0) b:S(0)" to "a:S(0)", over b. Rank extents are 2, 1
// for a=0 and 1, 1 for a=1. The extents by a are 2 and 1.
#include "shardproof/localtensor/plan/step_groups.h"

#include <algorithm>

#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/plan/dim_layout.h"
#include "shardproof/localtensor/plan/step_pieces.h"

namespace shardproof {
namespace {

using Extents = PaddedCounts::Extents;

constexpr int64_t kMaxPairsOfGroup = 4096;  // more pairs get an upper bound instead

Dims sizes_of_axes(const Mesh& mesh, const std::vector<int>& axes) {
  Dims sizes;
  for (const int axis : axes) sizes.push_back(mesh.axis_size(axis));
  return sizes;
}

// The coordinates of some axes of a mesh; the other axes are at those of `base`.
class Places {
 public:
  Places(const Mesh& mesh, std::vector<int> axes)
      : axes_(std::move(axes)), sizes_(sizes_of_axes(mesh, axes_)), count_(element_count(sizes_)) {}
  int64_t count() const { return count_; }
  Dims at(int64_t index, Dims base) const {
    const Dims place = unravel(index, sizes_);
    for (int k = 0; k < place.size(); ++k) base[axes_[static_cast<size_t>(k)]] = place[k];
    return base;
  }

 private:
  std::vector<int> axes_;
  Dims sizes_;
  int64_t count_;
};

// The axes that cut a dim, sorted into members and fixed ones.
struct CuttingAxes {
  std::vector<int> members, fixed;
  void add(const PlanStep& step, const Spec& spec, int dim) {
    for (const int axis : spec.axes_of_dim(dim)) {
      const bool moves = std::find(step.axes.begin(), step.axes.end(), axis) != step.axes.end();
      std::vector<int>& list = moves ? members : fixed;
      if (std::find(list.begin(), list.end(), axis) == list.end()) list.push_back(axis);
    }
  }
};

// Returns the largest extent of a dim of `spec` over the members at a coordinate.
int64_t largest_part_of(const Spec& spec, int dim, const Places& members, const Dims& base) {
  int64_t most = 0;
  for (int64_t i = 0; i < members.count(); ++i)
    most = std::max(most, length(spec.owned_at(members.at(i, base), dim)));
  return most;
}

int64_t largest_pair(const PlanStep& step, int dim, const Places& senders, const Places& receivers,
                     const Dims& base) {
  if (senders.count() > kMaxPairsOfGroup / std::max<int64_t>(receivers.count(), 1))
    return std::min(largest_part_of(step.from, dim, senders, base),
                    largest_part_of(step.to, dim, receivers, base));
  std::vector<Runs> wanted;
  for (int64_t i = 0; i < receivers.count(); ++i)
    wanted.push_back(step.to.owned_at(receivers.at(i, base), dim));
  int64_t most = 0;
  for (int64_t i = 0; i < senders.count(); ++i) {
    const Runs sent = step.from.owned_at(senders.at(i, base), dim);
    for (const Runs& runs : wanted) most = std::max(most, common_length(sent, runs));
  }
  return most;
}

// Fills the table over the fixed axes; one value if they do not matter.
template <typename Largest>
Extents extents_by(const Mesh& mesh, const std::vector<int>& fixed, const Largest& largest) {
  Extents extents{fixed, sizes_of_axes(mesh, fixed), {}};
  const Places places(mesh, fixed);
  const Dims origin = Dims::filled(mesh.axis_count(), 0);
  for (int64_t i = 0; i < places.count(); ++i)
    extents.values.push_back(largest(places.at(i, origin)));
  const auto all_are = [&](int64_t value) {
    return std::all_of(extents.values.begin(), extents.values.end(),
                       [&](int64_t v) { return v == value; });
  };
  if (all_are(extents.values.front())) return {{}, {}, {extents.values.front()}};
  return extents;
}

Extents extents_of_part(const PlanStep& step, const Spec& spec, int dim) {
  const CutList cuts = cuts_of_dim(spec, dim);
  const int64_t extent = spec.shape()[dim];
  if (is_even(cuts, extent)) return {{}, {}, {max_extent(cuts, extent)}};
  CuttingAxes axes;
  axes.add(step, spec, dim);
  if (axes.fixed.empty()) return {{}, {}, {max_extent(cuts, extent)}};
  const Places members(spec.mesh(), axes.members);
  return extents_by(spec.mesh(), axes.fixed,
                    [&](const Dims& base) { return largest_part_of(spec, dim, members, base); });
}

// True if all messages have one extent of this dim.
bool is_even_exchange(const PlanStep& step, int dim) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : step.from.mesh().axes()) sizes.push_back(axis.size);
  DimLayouts layouts(dim, step.from.shape()[dim], sizes);
  const int from = layouts.of_spec(step.from), to = layouts.of_spec(step.to);
  return layouts.is_even(from) && layouts.is_even(to) &&
         layouts.is_balanced(from, to, mask_of(step.axes));
}

Extents extents_of_pairs(const PlanStep& step, int dim, int64_t largest) {
  CuttingAxes before, after, all;
  before.add(step, step.from, dim);
  after.add(step, step.to, dim);
  all.add(step, step.from, dim);
  all.add(step, step.to, dim);
  if (all.fixed.empty() || is_even_exchange(step, dim)) return {{}, {}, {largest}};
  const Mesh& mesh = step.from.mesh();
  const Places senders(mesh, before.members), receivers(mesh, after.members);
  return extents_by(mesh, all.fixed, [&](const Dims& base) {
    return largest_pair(step, dim, senders, receivers, base);
  });
}

}  // namespace

PaddedCounts::PaddedCounts(const PlanStep& step) : pieces_(step.pieces) {
  const bool pairs = step.kind == StepKind::all_to_all;
  const Spec& part = step.kind == StepKind::reduce_scatter ? step.to : step.from;
  const Dims largest = pairs ? largest_common_part(step) : Dims();
  for (int dim = 0; dim < part.shape().size(); ++dim) {
    dims_.push_back(pairs ? extents_of_pairs(step, dim, largest[dim])
                          : extents_of_part(step, part, dim));
    for (const int axis : dims_.back().axes)
      if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) axes_.push_back(axis);
  }
}

int64_t PaddedCounts::at(const Dims& coordinate) const {
  Dims sides;
  for (const Extents& dim : dims_) {
    int64_t index = 0;
    for (size_t k = 0; k < dim.axes.size(); ++k)
      index = index * dim.sizes[static_cast<int>(k)] + coordinate[dim.axes[k]];
    sides.push_back(dim.values[static_cast<size_t>(index)]);
  }
  return elements_of_fullest_piece(sides, pieces_);
}

}  // namespace shardproof
