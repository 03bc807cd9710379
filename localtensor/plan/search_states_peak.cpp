// Implements least_of_last_step of search_states.h.
//
// Example: f32[64, 64] on a=2, b=2, to a:S(0), without exchange. b is gathered last: before, a rank
// has a quarter of the tensor, 1,024 elements; with the 2,048 of the goal 3,072. Or a is moved
// last, in rows of a half: 2,048 + 2,048 + 2 * 32.
#include <algorithm>
#include <bit>
#include <limits>

#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

// Calls each(sides, ranks) for each way to distribute the axes over the dims of a box. `ranks` is
// the number of ranks that cut each dim, `sides` the largest sides of a part.
template <typename Each>
void PlacementStates::for_each_cut(const Dims& sides, uint64_t axes, const Each& each) const {
  Dims ranks = Dims::filled(sides.size(), 1);
  const std::function<void(uint64_t)> place = [&](uint64_t rest) {
    if (rest == 0) {
      Dims cut = sides;
      for (int dim = 0; dim < cut.size(); ++dim) cut[dim] = ceil_div(cut[dim], ranks[dim]);
      return each(cut, ranks);
    }
    const int64_t size = sizes_[static_cast<size_t>(std::countr_zero(rest))];
    for (int dim = 0; dim < sides.size(); ++dim) {
      ranks[dim] *= size;
      place(rest & (rest - 1));
      ranks[dim] /= size;
    }
  };
  place(axes);
}

// An all_gather, as the last step, starts from a cut of what the goal owns. An all_to_all starts
// from a cut of the whole tensor by all axes that cut at the goal. An exchange or a reduction
// starts from a cut by any axes, a slice from the goal without the cut of one axis. Messages have a
// row at least (step_pieces.h).
int64_t PlacementStates::least_of_last_step() {
  if (to_partial_ != 0 || dims_.empty()) return 0;
  const uint64_t cut = cut_axes(goal_) & active_, open = active_ & ~cut;
  Dims goal, whole;
  for (DimLayouts& dim : dims_) {
    const int layout = goal_.layouts[static_cast<size_t>(dim.dim())];
    goal.push_back(dim.max_extent(layout));
    const int rest = dim.without(layout, active_);
    if (rest < 0) return 0;
    whole.push_back(dim.max_extent(rest));
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int axis : list_of_axes(cut)) {
    int64_t before = 1;
    for (DimLayouts& dim : dims_) {
      const int layout = goal_.layouts[static_cast<size_t>(dim.dim())];
      const int rest = dim.without(layout, uint64_t{1} << axis);
      before *= dim.max_extent(rest < 0 ? layout : rest);
    }
    least = std::min(least, before);
  }
  const auto offer = [&](const Dims& sides, int64_t copied_rows) {
    const int64_t before = element_count(sides);
    const int64_t longest = *std::max_element(sides.begin(), sides.end());
    least = std::min(least, before + (longest > 0 ? before / longest * copied_rows : 0));
  };
  for (uint64_t axes = open; axes != 0; axes = (axes - 1) & open) {
    const int64_t n = members(axes);
    for_each_cut(goal, axes, [&](const Dims& sides, const Dims& ranks) {
      const bool in_place = ranks[0] == n && goal[0] % n == 0;
      offer(sides, in_place ? 0 : n);
    });
  }
  const bool any = moves_ == PlanMoves::all || has_active_partials();
  for_each_cut(whole, any ? active_ : cut,
               [&](const Dims& sides, const Dims&) { offer(sides, any ? 0 : 2); });
  return element_count(goal) + least;
}

}  // namespace shardproof
