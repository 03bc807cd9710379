// PlacementStates: the graph that the planner searches. A state is a placement of the axes that
// take part; an edge is a legal step.
//
// A state holds, for each dim, the number of a layout (dim_layout.h), and the set of axes that are
// P. Axes are given as bit masks: bit a is mesh axis a. Axes of size 1 never take part.
//
// Example: "dp=2, tp=2", f32[8, 8], from "dp:S(0) tp:S(0)" to "dp:S(0) tp:S(1)". Active is {tp}: dp
// cuts the same in both specs once tp is taken out. Moves from the start (dim 0: dp tp; dim 1:
// none) include
//   all_gather over tp    to (dim 0: dp;    dim 1: none)
//   all_to_all over tp    to (dim 0: dp;    dim 1: tp), the goal
// and, from the gathered state, local slices of dim 0 or dim 1 by tp.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shardproof/localtensor/plan/axis_agreement.h"
#include "shardproof/localtensor/plan/dim_layout.h"
#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

// Returns the axes of a bit mask in ascending order.
std::vector<int> list_of_axes(uint64_t mask);
template <typename Each>
void for_each_axis(uint64_t axes, Each each) {
  for (; axes != 0; axes &= axes - 1) each(std::countr_zero(axes));
}
// Calls each(subset) for each subset that is not empty, the whole set first.
template <typename Each>
void for_each_subset(uint64_t axes, Each each) {
  for (uint64_t subset = axes; subset != 0; subset = (subset - 1) & axes) each(subset);
}
inline uint64_t axis_bit(int axis) { return uint64_t{1} << axis; }

struct PlacementState {
  std::array<int32_t, kMaxDims> layouts{};  // for each dim, the number of a layout in DimLayouts
  uint64_t partial = 0;                     // axes that are P
  bool operator==(const PlacementState&) const = default;
  uint64_t hash() const;
};

// An edge: a step without its specs.
struct PlacementMove {
  StepKind kind = StepKind::local;
  uint64_t axes = 0;
  PlacementState to;
};

// A price in units in which every fraction that can occur is an integer.
struct ExactCost {
  Int128 primary = 0;
  int64_t peak = 0;
  bool operator==(const ExactCost&) const = default;
  bool operator<(const ExactCost& o) const {
    return primary != o.primary ? primary < o.primary : peak < o.peak;
  }
};
inline ExactCost operator+(const ExactCost& a, const ExactCost& b) {
  return {a.primary + b.primary, std::max(a.peak, b.peak)};
}

class PlacementStates {
 public:
  // needed: the axes that have to move take part. all: all axes do.
  enum class Axes { needed, all };
  PlacementStates(const Spec& from, const Spec& to, Axes axes);
  // Selects the moves; required before for_each_move.
  void prepare_moves(PlanMoves moves);

  const PlacementState& start() const { return start_; }
  const PlacementState& goal() const { return goal_; }
  uint64_t active() const { return active_; }  // axes that take part
  // True if an active axis is P before or after.
  bool has_active_partials() const { return ((from_partial_ | to_partial_) & active_) != 0; }
  // True if all axes together cut each dim that moving axes may cut into equal parts.
  bool cuts_evenly() const;
  // True if the moves lead through all cuts that may cost less. False for most uneven cuts of pairs
  // with partials, and for most uneven strided cuts. Requires prepare_moves.
  bool tries_all_cuts() const;
  // Returns the start with all slices that the goal cuts in the same way: those that cost nothing
  // and leave no more to do.
  PlacementState sliced_start();
  // Returns the smallest set of axes that have to move between two states; see find_active.
  uint64_t moving_axes(const PlacementState& from, const PlacementState& to);
  // Returns the axes of the group of an exchange: those that have to move and are cut. Ranks along
  // the others hold the same, so none of them needs another.
  uint64_t exchange_group(const PlacementState& from, const PlacementState& to) {
    return moving_axes(from, to) & cut_axes(from);
  }
  // True if an axis of the set is cut in the state.
  bool cuts_any(const PlacementState& state, uint64_t axes) const {
    return (cut_axes(state) & axes) != 0;
  }
  bool cuts_all(const PlacementState& state, uint64_t axes) const {
    return (cut_axes(state) & axes) == axes;
  }
  // Returns the elements that a rank misses on average (exchange_volume.h).
  Fraction missing(const PlacementState& from, const PlacementState& to);
  // Returns an upper bound of the elements that a rank holds both before and after.
  int64_t common_at_most(const PlacementState& from, const PlacementState& to);
  // Calls visit(move) for each legal step whose result a Spec can describe. Leaves out each
  // all_gather and all_to_all for which skip(kind, axes) is true.
  using Visit = std::function<void(const PlacementMove&)>;
  using Skip = std::function<bool(StepKind, uint64_t)>;
  void for_each_move(const PlacementState& state, const Visit& visit, const Skip& skip);
  // Calls visit(move) for each call of this kind over the axes. An all_to_all moves the axes of
  // `to_goal` only to their digits of the goal.
  void for_each_call(const PlacementState& state, StepKind kind, uint64_t axes, uint64_t to_goal,
                     const Visit& visit);

  // Return the spec of a state and the step of an edge. Require states that a Spec can describe.
  Spec spec_of(const PlacementState& state);
  PlanStep step_of(const PlacementState& from, const PlacementMove& move);
  int64_t members(uint64_t axes) const;           // product of the sizes of the axes
  int64_t elements(const PlacementState& state);  // of the rank with the largest part
  // Returns a lower bound of the elements that a rank holds in the last step of a plan of two or
  // more steps. The source does not count.
  int64_t least_of_last_step();
  // Returns the elements that a group over `axes` holds together, at most.
  int64_t joint_elements(const PlacementState& state, uint64_t axes);
  // True if an all_to_all sends pieces of equal size between all pairs of ranks.
  bool is_balanced(const PlacementState& from, const PlacementMove& move) const;
  // Returns the elements that one rank sends to another, at most.
  int64_t piece_elements(const PlacementState& from, const PlacementMove& move);
  // Lower bounds. A rank of the goal has on average 1 / goal_parts() of the elements that the
  // active axes share. It has at most 1 / common_parts() of them both in `state` and in the goal; 0
  // means that this is not known.
  int64_t goal_parts() const { return members(cut_axes(goal_) & active_ & ~to_partial_); }
  int64_t common_parts(const PlacementState& state) const;
  // At most 1 / agreeing_parts() of the elements are held by one rank both in `state` and in the
  // goal. Partials of an element count as the element. 0: not known.
  int64_t agreeing_parts(const PlacementState& state) const {
    return agreement(state, goal_).parts;
  }
  int64_t parts_of(const PlacementState& state) const { return members(cut_axes(state) & active_); }
  // Returns the axes whose partials must still be reduced.
  uint64_t ending(const PlacementState& state) const {
    return state.partial & active_ & ~to_partial_;
  }
  // Returns the number of parts that the inactive axes cut.
  int64_t frozen_parts() const { return members(cut_axes(goal_) & ~active_); }
  bool is_even(const PlacementState& state) const;  // true if all parts are equal
  bool has_spec(const PlacementState& state);       // true if a Spec can describe the state

  // The digits of a dim's index that an axis cuts; `dim` is -1 if it cuts nothing.
  struct Digits {
    int dim = -1;
    int64_t first = 0, last = 0;
    bool operator==(const Digits&) const = default;
  };
  Digits digits_of(const PlacementState& state, int axis) const;
  // True if all relevant layouts are digits of one number. There are no partials, the sizes of the
  // active axes are powers of one prime, and start and goal cut dims evenly. The parts must also be
  // divisible by the longest size over the prime. Then uneven cuts of intermediate states lie
  // within the digits of start and goal. False for more than kMaxShuffled active axes.
  static constexpr int kMaxShuffled = 6;
  bool is_shuffle() const;
  // True if start and goal follow the chunk rule on all dims that active axes cut, without partials
  // and for few axes and ranks. Dims may be uneven, and sizes need not be powers of one prime.
  bool is_chunked() const;
  const std::vector<DimLayouts>& dims() const { return dims_; }
  DimLayouts& dim(int number) { return dims_[static_cast<size_t>(number)]; }
  // True if all digits of even layouts are powers of one prime.
  bool has_one_prime() const;
  // Returns the sizes that digits of layouts can have: those of axes, and of gaps in the specs.
  std::vector<int64_t> digit_sizes() const;
  uint64_t all_axes() const { return big_; }  // axes of more than one rank
  // Takes axes out of a state. Returns false if digits cannot describe the rest.
  bool remove_axes(PlacementState& state, uint64_t axes);

 private:
  uint64_t cut_axes(const PlacementState& state) const;
  bool adds_uneven_dim(const PlacementState& state) const;
  bool has_strided_cuts() const;  // true if a spec has some
  // A result of agreeing_parts for two states. `exact` is false if `parts` is only a bound.
  struct CutAgreement {
    int64_t parts = 1;
    bool exact = true;
  };
  CutAgreement agreement(const PlacementState& from, const PlacementState& to) const;
  const Reduction& reduction_of(int axis) const;
  bool reduce_together(uint64_t axes) const;
  uint64_t find_active(const PlacementState& from, const PlacementState& to);
  void collect_dims();
  void add_gaps();
  void local_moves(const PlacementState& state, const Visit& visit);
  void visit_if_legal(const PlacementMove& move, const Visit& visit);
  void gather_moves(const PlacementState& state, uint64_t axes, const Visit& visit);
  void all_to_all_moves(const PlacementState& state, uint64_t axes, uint64_t to_goal,
                        const Visit& visit);
  void exchange_moves(const PlacementState& state, const Visit& visit);
  void reduce_moves(const PlacementState& state, const Visit& visit);
  void place(PlacementState base, uint64_t axes, uint64_t to_goal,
             std::vector<PlacementState>& out);
  void place_one(PlacementState base, int axis, std::vector<PlacementState>& out);
  void place_anywhere(PlacementState base, uint64_t axes, std::vector<PlacementState>& out);
  void place_as_candidate(PlacementState base, uint64_t axes, uint64_t to_goal, size_t open,
                          std::vector<PlacementState>& out);
  // A candidate that cuts a layout further, by the axes that it places.
  struct Extension {
    int layout = 0;
    uint64_t placed = 0;
  };
  const std::vector<Extension>& extensions_of(size_t open, int layout);
  bool is_at_goal(const DimLayouts& dim, int layout, uint64_t axes) const;
  void collect_candidates();
  void add_candidate(size_t open, int layout);
  void add_chain_candidates();
  void add_strided_candidates();
  template <typename Each>
  void for_each_cut(const Dims& sides, uint64_t axes, const Each& each) const;

  const Spec &from_, &to_;
  std::vector<int64_t> sizes_;
  std::vector<DimLayouts> dims_;
  std::vector<int> open_dims_;  // dims that moving axes may cut
  // For each open dim: layouts of both specs, also with some axes taken out.
  std::vector<std::vector<int>> candidates_;
  std::vector<std::vector<std::optional<std::vector<Extension>>>> extensions_;  // also by layout
  std::vector<PlacementState> places_;  // of the moves that are being visited
  uint64_t active_ = 0, big_ = 0, from_partial_ = 0, to_partial_ = 0;
  PlacementState start_, goal_;
  PlanMoves moves_ = PlanMoves::all;
  bool has_candidates_ = false;
};

}  // namespace shardproof
