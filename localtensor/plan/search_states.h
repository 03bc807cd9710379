// The graph that the planner searches: states are placements of the axes that take part, edges are
// steps.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "shardproof/localtensor/plan/dim_layout.h"
#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

struct PlacementState {
  std::array<int16_t, kMaxDims> layouts{};  // per dim, numbers of DimLayouts
  uint64_t partial = 0;                     // axes that are P
  bool operator==(const PlacementState&) const = default;
  uint64_t hash() const;
};

// An edge: what a step does, without its specs.
struct PlacementMove {
  StepKind kind = StepKind::local;
  uint64_t axes = 0;
  PlacementState to;
};

class PlacementStates {
 public:
  // `wider`: all axes take part.
  enum class Axes { needed, all };
  PlacementStates(const Spec& from, const Spec& to, Axes axes);

  const PlacementState& start() const { return start_; }
  const PlacementState& goal() const { return goal_; }
  uint64_t active() const { return active_; }
  // Calls visit(move) for each legal step.
  void for_each_move(const PlacementState& state,
                     const std::function<void(const PlacementMove&)>& visit);

  Spec spec_of(const PlacementState& state);
  PlanStep step_of(const PlacementState& from, const PlacementMove& move);
  int64_t members(uint64_t axes) const;                 // product of their sizes
  int64_t elements(const PlacementState& state) const;  // of the fullest rank
  int64_t joint_elements(const PlacementState& state,
                         uint64_t axes);  // that a group over the axes holds together
  bool is_balanced(const PlacementState& from, const PlacementMove& move) const;
  int64_t piece_elements(const PlacementState& from,
                         const PlacementMove& move);  // that one rank sends another, at most
  // Bounds: a rank of the goal has, on average, 1 / goal_parts() of what the active axes share, and
  // in common with a rank of `state` at most 1 / common_parts(). 0: not known.
  int64_t goal_parts() const { return members(cut_axes(goal_) & active_ & ~to_partial_); }
  int64_t common_parts(const PlacementState& state) const;
  int64_t parts_of(const PlacementState& state) const { return members(cut_axes(state) & active_); }
  uint64_t ending(const PlacementState& state) const {
    return state.partial & active_ & ~to_partial_;
  }
  int64_t frozen_parts() const { return members(cut_axes(goal_) & ~active_); }
  bool has_spec(const PlacementState& state);

  // Axes, numbered among the active ones, that have to leave their places; and of each the others
  // that stand where it goes. Only of few axes, none of them partial and all shards even.
  static constexpr int kMaxShuffled = 6;
  struct Shuffle {
    uint8_t moving = 0;
    std::array<uint8_t, kMaxShuffled> waits_for{};
    uint64_t key() const;
  };
  Shuffle shuffle(const PlacementState& state) const;
  std::vector<int64_t> active_sizes() const;

 private:
  using Visit = std::function<void(const PlacementMove&)>;
  uint64_t cut_axes(const PlacementState& state) const;
  // Digits of a dim's index that an axis takes; `dim` -1: it cuts nothing.
  struct Digits {
    int dim = -1;
    int64_t first = 0, last = 0;
    bool operator==(const Digits&) const = default;
  };
  Digits digits_of(const PlacementState& state, int axis) const;
  const Reduction& reduction_of(int axis) const;
  bool reduce_together(uint64_t axes) const;
  void find_active(Axes axes);
  void collect_dims();
  void offer_holes();
  void local_moves(const PlacementState& state, const Visit& visit);
  void gather_moves(const PlacementState& state, const Visit& visit);
  void exchange_moves(const PlacementState& state, const Visit& visit);
  void reduce_moves(const PlacementState& state, const Visit& visit);
  void place(PlacementState base, uint64_t axes, std::vector<PlacementState>& out);
  void place_anywhere(PlacementState base, uint64_t axes, std::vector<PlacementState>& out);
  void place_as_asked(PlacementState base, uint64_t axes, size_t open,
                      std::vector<PlacementState>& out);
  void collect_asked();
  void ask(size_t open, int layout);
  void ask_chains();
  bool take_out(PlacementState& state, uint64_t axes);
  template <typename Each>
  void for_each_subset(uint64_t axes, Each each) const;

  const Spec &from_, &to_;
  std::vector<int64_t> sizes_;
  std::vector<DimLayouts> dims_;
  std::vector<int> open_dims_;  // that moving axes may cut
  std::vector<std::vector<int>>
      asked_;  // of open dims: layouts of both specs, and what is left of them
  uint64_t active_ = 0, big_ = 0, from_partial_ = 0, to_partial_ = 0;
  PlacementState start_, goal_;
};

}  // namespace shardproof
