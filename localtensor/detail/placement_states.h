// The graph that the planner searches: states are placements of the axes that take part, edges are
// steps.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "shardproof/localtensor/detail/layout.h"
#include "shardproof/localtensor/plan.h"

namespace shardproof {

struct State {
  std::array<int16_t, kMaxDims> layouts{};  // per dim, numbers of DimLayouts
  uint64_t partial = 0;                     // axes that are P
  bool operator==(const State&) const = default;
  uint64_t hash() const;
};

// An edge: what a step does, without its specs.
struct Move {
  StepKind kind = StepKind::local;
  uint64_t axes = 0;
  State to;
};

class PlacementStates {
 public:
  // `wider`: all axes take part.
  enum class Axes { needed, all };
  PlacementStates(const Spec& from, const Spec& to, Axes axes);

  const State& start() const { return start_; }
  const State& goal() const { return goal_; }
  uint64_t active() const { return active_; }
  // Calls visit(move) for each legal step.
  void for_each_move(const State& state, const std::function<void(const Move&)>& visit);

  Spec spec_of(const State& state);
  PlanStep step_of(const State& from, const Move& move);
  int64_t members(uint64_t axes) const;        // product of their sizes
  int64_t elements(const State& state) const;  // of the fullest rank
  int64_t joint_elements(const State& state,
                         uint64_t axes);  // that a group over the axes holds together
  bool is_balanced(const State& from, const Move& move) const;
  int64_t piece_elements(const State& from,
                         const Move& move);  // that one rank sends another, at most
  // Elements of a rank on average, times `scale`, leaving out axes that end as P.
  double mean_elements(const State& state) const;
  bool is_sayable(const State& state);

 private:
  using Visit = std::function<void(const Move&)>;
  uint64_t cut_axes(const State& state) const;
  const Reduction& reduction_of(int axis) const;
  bool reduce_together(uint64_t axes) const;
  void find_active(Axes axes);
  void collect_dims();
  void offer_holes();
  void local_moves(const State& state, const Visit& visit);
  void gather_moves(const State& state, const Visit& visit);
  void exchange_moves(const State& state, const Visit& visit);
  void reduce_moves(const State& state, const Visit& visit);
  void place(State base, uint64_t axes, std::vector<State>& out);
  bool take_out(State& state, uint64_t axes);
  template <typename Each>
  void for_each_subset(uint64_t axes, Each each) const;

  const Spec &from_, &to_;
  std::vector<int64_t> sizes_;
  std::vector<DimLayouts> dims_;
  std::vector<int> open_dims_;  // that moving axes may cut
  uint64_t active_ = 0, big_ = 0, from_partial_ = 0, to_partial_ = 0;
  State start_, goal_;
};

}  // namespace shardproof
