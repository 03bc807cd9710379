// Implements search_bound_path.h. The bound names, for each step, the axes that move and their
// positions. Homes are digits of the goal. An axis that moves aside gets the first digits of a dim
// that no axis needs, uses now, or uses before the step; the shortest gap before them wins.
//
// Example: "a=2, b=2, c=2", f32[64, 64], a:S(0) b:S(1) to a:S(1) b:S(0). Both move aside, then
// home. The digits before 2 are needed on both dims, so a moves to S(0, split=2), b to
// S(1, split=2).
#include "shardproof/localtensor/plan/search_bound_path.h"

#include <algorithm>

namespace shardproof {

namespace {

using Digits = PlacementStates::Digits;
using Positions = ShuffleBound::Positions;

bool digits_overlap(const Digits& a, const Digits& b) {
  return a.dim == b.dim && a.dim >= 0 && a.first < b.last && b.first < a.last;
}

class BoundPath {
 public:
  BoundPath(PlacementStates& states, ShuffleBound& bound)
      : states_(states), bound_(bound), axes_(list_of_axes(states.active())) {
    for (size_t i = 0; i < axes_.size(); ++i) {
      needed_.push_back(bound.home(i));
      needed_.push_back(states.digits_of(states.start(), axes_[i]));
    }
  }

  std::vector<PlacementMove> moves() {
    PlacementState state = states_.start();
    uint64_t code = bound_.code_of(state);
    while (true) {
      const ShuffleBound::Choice& choice = bound_.solve(code);
      if (choice.sliced != code && !add(state, StepKind::local, code, choice.sliced)) return {};
      if (choice.kind == StepKind::local) break;
      if (!add(state, choice.kind, choice.sliced, choice.next)) return {};
      code = choice.next;
    }
    return state == states_.goal() ? std::move(moves_) : std::vector<PlacementMove>{};
  }

 private:
  // Appends a move and changes the state. Returns false if the axes do not find their digits.
  bool add(PlacementState& state, StepKind kind, uint64_t before, uint64_t after) {
    const Positions from = bound_.positions_of(before), to = bound_.positions_of(after);
    uint64_t moved = 0;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (from[i] != to[i]) moved |= uint64_t{1} << axes_[i];
    PlacementMove move{kind, moved, state};
    if (!states_.remove_axes(move.to, moved)) return false;
    if (kind != StepKind::all_gather && !place(state, from, to, move.to)) return false;
    if (!states_.has_spec(move.to)) return false;
    state = move.to;
    moves_.push_back(std::move(move));
    return true;
  }

  bool place(const PlacementState& before, const Positions& from, const Positions& to,
             PlacementState& state) {
    std::vector<Digits> used = needed_;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (from[i] == to[i]) continue;
      used.push_back(states_.digits_of(before, axes_[i]));
      if (to[i] == ShuffleBound::kHome && !put(state, axes_[i], bound_.home(i))) return false;
    }
    for (size_t i = 0; i < axes_.size(); ++i)
      if (from[i] != to[i] && to[i] == ShuffleBound::kAside && !put_aside(state, axes_[i], used))
        return false;
    return true;
  }

  bool put(PlacementState& state, int axis, const Digits& digits) {
    DimLayouts& dim = states_.dim(digits.dim);
    int16_t& layout = state.layouts[static_cast<size_t>(digits.dim)];
    const int next = dim.with_place(layout, axis, digits.first);
    if (next < 0) return false;
    layout = static_cast<int16_t>(next);
    return true;
  }

  // Returns where the digits in `used` and those that the state cuts end on a dim.
  std::vector<int64_t> ends(const DimLayouts& dim, const PlacementState& state,
                            const std::vector<Digits>& used) const {
    std::vector<int64_t> ends;
    for (const Digits& digits : used)
      if (digits.dim == dim.dim()) ends.push_back(digits.last);
    const int16_t layout = state.layouts[static_cast<size_t>(dim.dim())];
    for (const int axis : list_of_axes(dim.axes(layout)))
      ends.push_back(dim.first_place(layout, axis) * states_.members(uint64_t{1} << axis));
    return ends;
  }

  bool put_aside(PlacementState& state, int axis, const std::vector<Digits>& used) {
    const int64_t size = states_.members(uint64_t{1} << axis);
    std::vector<Digits> places;
    for (const DimLayouts& dim : states_.dims()) {
      places.push_back({dim.dim(), 1, size});
      for (const int64_t last : ends(dim, state, used))
        places.push_back({dim.dim(), last, last * size});
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const Digits& a, const Digits& b) { return a.first < b.first; });
    return std::any_of(places.begin(), places.end(), [&](const Digits& place) {
      for (const Digits& digits : used)
        if (digits_overlap(place, digits)) return false;
      PlacementState next = state;
      if (!put(next, axis, place)) return false;
      const auto at = static_cast<size_t>(place.dim);
      if (!states_.dim(place.dim).has_spec(next.layouts[at])) return false;
      state = next;
      return true;
    });
  }

  PlacementStates& states_;
  ShuffleBound& bound_;
  std::vector<int> axes_;
  std::vector<Digits> needed_;  // of the goal, or used in the start
  std::vector<PlacementMove> moves_;
};

}  // namespace

std::vector<PlacementMove> path_at_bound(PlacementStates& states, ShuffleBound& bound) {
  return BoundPath(states, bound).moves();
}

}  // namespace shardproof
