// Implements search_bound_path.h. The bound names, for each step, the axes that move and their
// positions. An axis that moves to spare digits gets the first digits of a dim that no axis needs,
// uses now, or uses before the step. Even digits are preferred, then the shortest gap. A step may
// be impossible in this way, or may cost more than the bound counts. Then the search tries other
// continuations, the cheapest first (ShuffleBound::options). The search is depth first. It prunes
// continuations that can lead neither to a cheaper path nor to a lower peak at the same price. It
// runs twice: once any digits are taken, once even ones are preferred.
//
// Example: "a=2, b=2, c=2", f32[64, 64], a:S(0) b:S(1) to a:S(1) b:S(0). Both move to spare digits,
// then to their goals. The digits before 2 are needed on both dims, so a moves to S(0, split=2), b
// to S(1, split=2).
#include "shardproof/localtensor/plan/search_bound_path.h"

#include <algorithm>

namespace shardproof {

namespace {

using Digits = PlacementStates::Digits;
using Positions = ShuffleBound::Positions;

class BoundPath {
 public:
  BoundPath(PlacementStates& states, ShuffleBound& bound, const MovePrice& price)
      : states_(states), bound_(bound), price_(price), axes_(list_of_axes(states.active())) {
    for (size_t i = 0; i < axes_.size(); ++i) {
      needed_.push_back(bound.goal(i));
      needed_.push_back(states.digits_of(states.start(), axes_[i]));
    }
  }

  std::vector<PlacementMove> moves() {
    const PlacementState& start = states_.start();
    const uint64_t code = bound_.code_of(start);
    const auto try_paths = [&](bool cheapest, bool even_first) {
      if (!(bound_.solve(code).cost < best_)) return;
      tries_ = int64_t{1} << (2 * axes_.size());
      even_first_ = even_first;
      extend(start, code, {}, cheapest);
    };
    try_paths(true, true);
    try_paths(false, false);
    try_paths(false, true);
    return std::move(best_moves_);
  }

 private:
  // Continues from a state with the moves that the bound counts. Unless `cheapest`, it also
  // continues with all other moves that can lead to a cheaper path.
  void extend(const PlacementState& from, uint64_t code, const ExactCost& cost, bool cheapest) {
    const size_t count = moves_.size();
    const std::vector<ShuffleBound::Choice> choices =
        cheapest ? std::vector{bound_.solve(code)}
                 : bound_.options(code, best_.primary - cost.primary);
    for (const ShuffleBound::Choice& choice : choices) {
      if (!(cost + choice.cost < best_) || tries_-- <= 0) break;
      PlacementState state = from;
      if (choice.sliced == code || add(state, StepKind::local, code, choice.sliced))
        call(state, choice, cost, cheapest);
      moves_.resize(count);
    }
  }

  void call(const PlacementState& from, const ShuffleBound::Choice& choice, const ExactCost& cost,
            bool cheapest) {
    if (choice.kind == StepKind::local) {
      if (!(from == states_.goal())) return;
      best_moves_ = moves_;
      best_ = cost;
      return;
    }
    PlacementState state = from;
    if (add(state, choice.kind, choice.sliced, choice.next))
      extend(state, choice.next, cost + price_(from, moves_.back()), cheapest);
  }

  // Appends a move and changes the state. Returns false if no dim has the digits for
  // the axes.
  bool add(PlacementState& state, StepKind kind, uint64_t before, uint64_t after) {
    const Positions from = bound_.positions_of(before);
    Positions to = bound_.positions_of(after);
    for (size_t i = 0; i < axes_.size(); ++i)
      if (to[i] == ShuffleBound::kLongSpare) to[i] = from[i];  // it stays
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
      if (to[i] == ShuffleBound::kGoal && !put(state, axes_[i], bound_.goal(i))) return false;
    }
    for (size_t i = 0; i < axes_.size(); ++i)
      if (from[i] != to[i] && to[i] == ShuffleBound::kSpare && !put_on_spare(state, axes_[i], used))
        return false;
    return true;
  }

  bool put(PlacementState& state, int axis, const Digits& digits) {
    DimLayouts& dim = states_.dim(digits.dim);
    int32_t& layout = state.layouts[static_cast<size_t>(digits.dim)];
    const int next = dim.with_place(layout, axis, digits.first);
    if (next < 0) return false;
    layout = static_cast<int32_t>(next);
    return true;
  }

  // Returns where the digits in `used` and those that the state cuts end on a dim.
  std::vector<int64_t> ends(const DimLayouts& dim, const PlacementState& state,
                            const std::vector<Digits>& used) const {
    std::vector<int64_t> ends;
    for (const Digits& digits : used)
      if (digits.dim == dim.dim()) ends.push_back(digits.last);
    const int32_t layout = state.layouts[static_cast<size_t>(dim.dim())];
    for (const int axis : list_of_axes(dim.axes(layout)))
      ends.push_back(dim.first_place(layout, axis) * states_.members(uint64_t{1} << axis));
    return ends;
  }

  // True if the digits are even ones, or follow those of the layout.
  bool is_nested(const PlacementState& state, const Digits& place) const {
    const DimLayouts& dim = states_.dim(place.dim);
    return dim.extent() % place.last == 0 ||
           dim.parts(state.layouts[static_cast<size_t>(place.dim)]) == place.first;
  }

  bool put_on_spare(PlacementState& state, int axis, const std::vector<Digits>& used) {
    const int64_t size = states_.members(uint64_t{1} << axis);
    std::vector<Digits> places;
    for (const DimLayouts& dim : states_.dims()) {
      places.push_back({dim.dim(), 1, size});
      for (const int64_t last : ends(dim, state, used))
        places.push_back({dim.dim(), last, last * size});
    }
    const auto is_even = [&](const Digits& place) {
      return states_.dim(place.dim).extent() % place.last == 0;
    };
    std::stable_sort(places.begin(), places.end(), [&](const Digits& a, const Digits& b) {
      const bool even = is_even(a);
      return even_first_ && even != is_even(b) ? even : a.first < b.first;
    });
    return std::any_of(places.begin(), places.end(), [&](const Digits& place) {
      for (const Digits& digits : used)
        if (digits_overlap(place, digits)) return false;
      if (!is_nested(state, place)) return false;
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
  const MovePrice& price_;
  std::vector<int> axes_;
  std::vector<Digits> needed_;  // of the goal, or used in the start
  std::vector<PlacementMove> moves_, best_moves_;
  ExactCost best_{ShuffleBound::kNoLimit, 0};
  int64_t tries_ = 0;  // that are left
  bool even_first_ = true;
};

}  // namespace

std::vector<PlacementMove> path_at_bound(PlacementStates& states, ShuffleBound& bound,
                                         const MovePrice& price) {
  return BoundPath(states, bound, price).moves();
}

}  // namespace shardproof
