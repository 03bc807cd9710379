// Implements the part of search_states.h that decides where moving axes may cut.
//
// prepare_moves:
//   1. collect_dims: the dims that active axes cut in either spec, and one spare dim.
//   2. collect_candidates: layouts that several axes may take in one step. These are the layouts of
//      both specs with any axes taken out, and plain cuts by several axes in a row.
//
// One axis may be placed at every legal place of an open dim (place_anywhere). Several axes at once
// may be placed anywhere if at most two axes are active. Otherwise they are placed only as one of
// the candidates, because the number of states would grow exponentially.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

namespace {

constexpr int kMaxAnywhere = 2;   // active axes that may be placed anywhere together
constexpr int kMaxAxesInGap = 2;  // of one strided cut on the way of partials

struct StateHash {
  size_t operator()(const PlacementState& state) const { return static_cast<size_t>(state.hash()); }
};

}  // namespace

void PlacementStates::collect_dims() {
  for (const DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    const uint64_t axes = dim.axes(start_.layouts[at]) | dim.axes(goal_.layouts[at]);
    if ((axes & active_) != 0) open_dims_.push_back(dim.dim());
  }
  // A cut of a dim that neither spec cuts can save bytes on the way. This happens if axes change
  // places on one dim, or one partial turns into another. The longest such dim is tried; with
  // partials on few axes, all dims are, because uneven dims save different amounts.
  int spare = -1;
  for (const DimLayouts& dim : dims_) {
    const bool used =
        std::find(open_dims_.begin(), open_dims_.end(), dim.dim()) != open_dims_.end();
    if (!used && (spare < 0 || from_.shape()[dim.dim()] > from_.shape()[spare])) spare = dim.dim();
  }
  if (has_active_partials() && std::popcount(active_) <= kMaxAnywhere) {
    open_dims_.clear();
    for (const DimLayouts& dim : dims_) open_dims_.push_back(dim.dim());
  } else if (spare >= 0) {
    open_dims_.push_back(spare);
  }
}

// Allows strided cuts whose gap is the size of an active axis, which can later cut into the gap.
// Two axes can do so together if all cuts are even: they scatter their partials into it. Uneven
// cuts may own the same as a cut with another gap, from which other moves lead on.
void PlacementStates::add_gaps() {
  const bool wide = has_active_partials() && cuts_evenly();
  const int most = wide ? kMaxAxesInGap : 1;
  for (int dim : open_dims_)
    for_each_subset(active_, [&](uint64_t axes) {
      if (std::popcount(axes) <= most) dims_[static_cast<size_t>(dim)].add_gap(members(axes));
    });
}

void PlacementStates::add_candidate(size_t open, int layout) {
  DimLayouts& layouts = dims_[static_cast<size_t>(open_dims_[open])];
  std::vector<int>& known = candidates_[open];
  if (layout < 0 || !layouts.has_spec(layout)) return;
  if (std::find(known.begin(), known.end(), layout) != known.end()) return;
  known.push_back(layout);
  layouts.offer(layout);
}

void PlacementStates::collect_candidates() {
  candidates_.resize(open_dims_.size());
  for (size_t open = 0; open < open_dims_.size(); ++open) {
    const auto dim = static_cast<size_t>(open_dims_[open]);
    for (const PlacementState* state : {&start_, &goal_}) {
      const int whole = state->layouts[dim];
      const uint64_t axes = dims_[dim].axes(whole) & active_;
      for (uint64_t out = axes;; out = (out - 1) & axes) {
        add_candidate(open, dims_[dim].without(whole, out));
        if (out == 0) break;
      }
    }
  }
  add_chain_candidates();
  const bool tries = has_active_partials() || moves_ == PlanMoves::collectives;
  if (tries && std::popcount(active_) <= kMaxAnywhere) add_strided_candidates();
}

bool PlacementStates::cuts_evenly() const {
  const int64_t ranks = members(big_);
  return std::all_of(open_dims_.begin(), open_dims_.end(), [&](int open) {
    const auto at = static_cast<size_t>(open);
    return dims_[at].extent() % ranks == 0 && dims_[at].is_even(start_.layouts[at]) &&
           dims_[at].is_even(goal_.layouts[at]);
  });
}

bool PlacementStates::has_strided_cuts() const {
  const auto is_strided = [](const Placement& placement) {
    return placement.is_shard() && placement.shard().split > 1;
  };
  return std::any_of(from_.placements().begin(), from_.placements().end(), is_strided) ||
         std::any_of(to_.placements().begin(), to_.placements().end(), is_strided);
}

bool PlacementStates::tries_all_cuts() const {
  const bool plain = !has_strided_cuts(), all = moves_ == PlanMoves::all;
  const bool few = std::popcount(active_) <= kMaxAnywhere;
  if (has_active_partials()) return cuts_evenly() && (plain || (all && few));
  return all || is_shuffle() || (plain && is_chunked());
}

// Adds strided cuts by one or two axes in a row, if a cut is strided or uneven. On uneven dims a
// partial that is scattered to such a cut can need fewer bytes later.
void PlacementStates::add_strided_candidates() {
  if (cuts_evenly() && !has_strided_cuts()) return;
  const std::vector<int> axes = list_of_axes(active_);
  for (size_t open = 0; open < open_dims_.size(); ++open) {
    DimLayouts& dim = dims_[static_cast<size_t>(open_dims_[open])];
    std::vector<int64_t> splits = dim.gaps();
    splits.push_back(1);
    for (const int64_t split : splits)
      for (const int axis : axes) {
        add_candidate(open, dim.of_chain({axis}, {split}));
        for (const int inner : axes)
          for (const int64_t inner_split : splits)
            if (inner != axis)
              add_candidate(open, dim.of_chain({axis, inner}, {split, inner_split}));
      }
  }
}

// Adds plain cuts by several axes in a row: in every order for up to three axes, else in the orders
// of the two specs.
void PlacementStates::add_chain_candidates() {
  const auto add_everywhere = [&](const std::vector<int>& chain) {
    for (size_t open = 0; open < open_dims_.size(); ++open)
      add_candidate(open, dims_[static_cast<size_t>(open_dims_[open])].of_chain(chain));
  };
  if (std::popcount(active_) <= 3) {
    for (uint64_t subset = active_; subset != 0; subset = (subset - 1) & active_) {
      std::vector<int> chain = list_of_axes(subset);
      do add_everywhere(chain);
      while (std::next_permutation(chain.begin(), chain.end()));
    }
    return;
  }
  for (const auto* state : {&start_, &goal_})
    for (const DimLayouts& dim : dims_) {
      const auto order = dim.axis_order(state->layouts[static_cast<size_t>(dim.dim())]);
      for (uint64_t subset = 1; subset < axis_bit(static_cast<int>(order.size())); ++subset) {
        std::vector<int> chain;
        for (size_t i = 0; i < order.size(); ++i)
          if ((subset >> i & 1) != 0 && (active_ & axis_bit(order[i])) != 0)
            chain.push_back(order[i]);
        add_everywhere(chain);
      }
    }
}

// Appends the ways in which `axes` can cut the part that they hold together in `base`.
void PlacementStates::place(PlacementState base, uint64_t axes, uint64_t to_goal,
                            std::vector<PlacementState>& out) {
  if (std::has_single_bit(axes)) return place_one(base, std::countr_zero(axes), out);
  if (std::popcount(active_) <= kMaxAnywhere) return place_anywhere(base, axes, out);
  place_as_candidate(base, axes, to_goal, 0, out);
}

void PlacementStates::place_one(PlacementState base, int axis, std::vector<PlacementState>& out) {
  for (int dim : open_dims_) {
    int32_t& layout = base.layouts[static_cast<size_t>(dim)];
    const int32_t before = layout;
    for (int place : dims_[static_cast<size_t>(dim)].with(before, axis)) {
      layout = static_cast<int32_t>(place);
      out.push_back(base);
    }
    layout = before;
  }
}

void PlacementStates::place_anywhere(PlacementState base, uint64_t axes,
                                     std::vector<PlacementState>& out) {
  std::unordered_set<PlacementState, StateHash> seen(out.begin(), out.end());
  const std::function<void(const PlacementState&, uint64_t)> place_rest =
      [&](const PlacementState& from, uint64_t rest) {
        if (rest == 0) {
          if (seen.insert(from).second) out.push_back(from);
          return;
        }
        for_each_axis(rest, [&](int axis) {
          for (int dim : open_dims_) {
            PlacementState next = from;
            int32_t& layout = next.layouts[static_cast<size_t>(dim)];
            // A copy, because the recursion may reallocate the list.
            const std::vector<int> places = dims_[static_cast<size_t>(dim)].with(layout, axis);
            for (int place : places) {
              layout = static_cast<int32_t>(place);
              place_rest(next, rest & ~axis_bit(axis));
            }
          }
        });
      };
  place_rest(base, axes);
}

// True if these axes cut the same digits in the layout as in the goal.
bool PlacementStates::is_at_goal(const DimLayouts& dim, int layout, uint64_t axes) const {
  const int goal = goal_.layouts[static_cast<size_t>(dim.dim())];
  for (; axes != 0; axes &= axes - 1) {
    const int axis = std::countr_zero(axes);
    if (dim.first_place(layout, axis) != dim.first_place(goal, axis)) return false;
  }
  return true;
}

void PlacementStates::place_as_candidate(PlacementState base, uint64_t axes, uint64_t to_goal,
                                         size_t open, std::vector<PlacementState>& out) {
  if (axes == 0) return out.push_back(base);
  if (open == open_dims_.size()) return;
  const DimLayouts& dim = dims_[static_cast<size_t>(open_dims_[open])];
  int32_t& layout = base.layouts[static_cast<size_t>(open_dims_[open])];
  place_as_candidate(base, axes, to_goal, open + 1, out);
  for (const Extension& extension : extensions_of(open, layout)) {
    if ((extension.placed & ~axes) != 0) continue;
    if (!is_at_goal(dim, extension.layout, extension.placed & to_goal)) continue;
    layout = static_cast<int32_t>(extension.layout);
    place_as_candidate(base, axes & ~extension.placed, to_goal, open + 1, out);
  }
}

const std::vector<PlacementStates::Extension>& PlacementStates::extensions_of(size_t open,
                                                                              int layout) {
  DimLayouts& dim = dims_[static_cast<size_t>(open_dims_[open])];
  const auto at = static_cast<size_t>(layout);
  extensions_.resize(open_dims_.size());
  if (at >= extensions_[open].size()) extensions_[open].resize(at + 1);
  std::optional<std::vector<Extension>>& known = extensions_[open][at];
  if (known) return *known;
  known.emplace();
  for (int candidate : candidates_[open]) {
    const uint64_t placed = dim.axes(candidate) & ~dim.axes(layout);
    const bool keeps = (dim.axes(layout) & ~dim.axes(candidate)) == 0;
    if (keeps && placed != 0 && dim.without(candidate, placed) == layout)
      known->push_back({candidate, placed});
  }
  return *known;
}

}  // namespace shardproof
