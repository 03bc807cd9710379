// Implements planner.h: A* search over placement states (search_states.h).
//
//   1. Nodes are states: which axes cut which dim in which order, and which axes are partial. Edges
//      are legal steps (for_each_move). The cost of a path is the price of its steps.
//   2. The open node with the least (cost so far + lower bound of the rest) is settled next. Ties
//      go to the node found first, so that plans depend on nothing but the specs.
//   3. The search ends when the goal is settled, after max_states, or when every open path costs
//      more than at_most.
//   4. If the goal cannot be reached with the axes that have to move, all axes take part
//      (Axes::all).
//   5. plan_of turns the path into steps. If the naive plan is cheaper, that is returned.
//
// With price_by_bytes, ByteModel computes costs from layouts alone, in integers: bytes are counted
// in fractions 1 / (world^2 * frozen parts), so that plans of equal bytes are told apart by calls.
//
// Lower bound by example ("dp=2, tp=2", f32[8, 8], "dp:S(0) tp:S(0)" to "dp:S(0) tp:S(1)"): along
// tp the ranks share 128 bytes. A rank ends with one half of the columns, and begins with one half
// of the rows: 1/4 of the bytes belong to both. So it must receive 1/2 - 1/4 = 1/4, 32 bytes. An
// all_to_all sends just that, and the search settles two states: the start and the goal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/localtensor/plan/search_lower_bound.h"

namespace shardproof {

namespace {

__extension__ using Int128 = __int128;

// A price with bytes in units in which every fraction that can occur is an integer. Plans of equal
// bytes are then told apart by calls, never by rounding.
struct ExactCost {
  Int128 bytes = 0;
  int64_t calls = 0, peak = 0;
  bool operator==(const ExactCost&) const = default;
  bool operator<(const ExactCost& o) const {
    if (bytes != o.bytes) return bytes < o.bytes;
    return calls != o.calls ? calls < o.calls : peak < o.peak;
  }
};
ExactCost operator+(const ExactCost& a, const ExactCost& b) {
  return {a.bytes + b.bytes, a.calls + b.calls, std::max(a.peak, b.peak)};
}

// Computes price_by_bytes from the layouts of states, without making specs.
class ByteModel {
 public:
  using Cost = ExactCost;
  ByteModel(PlacementStates& states, const Spec& spec)
      : states_(states), shuffle_(states.active_sizes()), itemsize_(size_of(spec.dtype())) {
    const Int128 world = states.members(states.active());
    square_ = world * world;
    unit_ = square_ * states.frozen_parts();
    shared_ = Int128{element_count(spec.shape())} * itemsize_;
    world_ = states.members(states.active());
    goal_parts_ = states.goal_parts();
  }

  // Returns a limit that is not below the price, which is rounded.
  Cost limit(const Price& price) const {
    const long double bytes = std::ceil(static_cast<long double>(price.primary) * unit_) + 1;
    return {static_cast<Int128>(bytes), std::numeric_limits<int64_t>::max(),
            std::numeric_limits<int64_t>::max()};
  }

  Cost edge(const PlacementState& from, const PlacementMove& move) {
    const int64_t before = states_.elements(from) * itemsize_;
    const int64_t after = states_.elements(move.to) * itemsize_;
    const int64_t n = states_.members(move.axes);
    const auto share = [&](int64_t elements, int64_t num, int64_t den) {
      return Int128{elements} * itemsize_ * num * (unit_ / den);
    };
    switch (move.kind) {
      case StepKind::all_gather:
        return {share(states_.joint_elements(from, move.axes), n - 1, n), 1, before + 2 * after};
      case StepKind::all_to_all:
        if (!states_.is_balanced(from, move))
          return {share(states_.piece_elements(from, move), n - 1, 1), 1, 2 * (before + after)};
        return {share(states_.joint_elements(from, move.axes), n - 1, n * n), 1,
                2 * (before + after)};
      case StepKind::reduce_scatter:
        return {share(states_.elements(from), n - 1, n), 1, 2 * before + after};
      case StepKind::all_reduce:
        return {share(states_.elements(from), 2 * (n - 1), n), 1, before + after};
      default: return {0, 0, before + after};
    }
  }

  // Returns a lower bound of the cost from `state` to the goal: a rank must receive the part that
  // it lacks, and before that all partials of an element but one must be sent.
  Cost least(const PlacementState& state) {
    const bool makes_partials = (states_.goal().partial & states_.active()) != 0;
    const uint64_t ending = states_.ending(state);
    Int128 parts = 0;  // fraction of the whole, times world^2
    if (ending != 0 && !makes_partials) {
      parts = square_ / goal_parts_ + square_ / world_ * (states_.members(ending) - 2);
    } else if (ending == 0 && !makes_partials) {
      const int64_t common = states_.common_parts(state);
      const int64_t had = common > 0 ? common : states_.parts_of(state);
      const int64_t shuffled = shuffle_.least(states_.shuffle(state), world_);
      parts = std::max(square_ / goal_parts_ - square_ / had, Int128{shuffled});
    }
    Cost least;
    if (parts > 0) least.bytes = shared_ * parts;
    least.calls = parts > 0 || ending != 0 ? 1 : 0;
    return least;
  }

 private:
  PlacementStates& states_;
  ShuffleBound shuffle_;
  int64_t itemsize_;
  Int128 square_ = 1, unit_ = 1, shared_ = 0;
  int64_t world_ = 1, goal_parts_ = 1;
};

// Any other price: a step is priced from its specs, and there is no lower bound.
class PriceModel {
 public:
  using Cost = Price;
  Cost limit(const Price& price) const { return price; }
  PriceModel(PlacementStates& states, const PriceFunction& price)
      : states_(states), price_(price) {}
  Cost edge(const PlacementState& from, const PlacementMove& move) {
    return price_(states_.step_of(from, move));
  }
  Cost least(const PlacementState&) const { return {}; }

 private:
  PlacementStates& states_;
  const PriceFunction& price_;
};

struct Found {
  std::vector<std::pair<PlacementState, PlacementMove>> path;  // each move with its first state
  int64_t states = 0;
  bool reached = false;
  bool gave_up = false;  // true if the limit cut off some path
};

// The A* search; see the top of this file.
template <typename Model>
class Search {
 public:
  using Cost = typename Model::Cost;
  Search(PlacementStates& states, Model model, const PlannerOptions& options)
      : states_(states), model_(std::move(model)), max_states_(options.max_states) {
    if (options.at_most) limit_ = model_.limit(*options.at_most);
  }

  Found run() {
    nodes_.push_back({states_.start(), Cost{}, model_.least(states_.start()), -1, {}, false});
    number_.emplace(states_.start(), 0);
    open_.push({nodes_[0].least, 0});
    Found found;
    while (!open_.empty() && found.states < max_states_) {
      const Entry entry = open_.top();
      open_.pop();
      Node& node = nodes_[static_cast<size_t>(entry.node)];
      if (node.done) continue;
      node.done = true;
      ++found.states;
      if (node.state == states_.goal()) {
        found.reached = true;
        break;
      }
      expand(entry.node);
    }
    trace(found);
    found.gave_up = gave_up_;
    return found;
  }

 private:
  struct Node {
    PlacementState state;
    Cost cost{}, least{};  // cost so far, lower bound of the rest
    int parent = -1;
    PlacementMove move;
    bool done = false;
  };
  struct Entry {
    Cost total;
    int node;
    bool operator<(const Entry& o) const {  // reversed: std::priority_queue returns the largest
      if (!(total == o.total)) return o.total < total;
      return node > o.node;
    }
  };
  struct Hash {
    size_t operator()(const PlacementState& s) const { return static_cast<size_t>(s.hash()); }
  };

  void expand(int at) {
    const PlacementState state = nodes_[static_cast<size_t>(at)].state;
    const Cost cost = nodes_[static_cast<size_t>(at)].cost;
    states_.for_each_move(state, [&](const PlacementMove& move) {
      // Computing the cost of a step is slow, so paths that cannot win are dropped before.
      const auto [known, fresh] = number_.try_emplace(move.to, static_cast<int>(nodes_.size()));
      if (fresh) nodes_.push_back({move.to, {}, model_.least(move.to), -1, move, false});
      const int to = known->second;
      Node& node = nodes_[static_cast<size_t>(to)];
      const bool reached = node.parent >= 0 || to == 0;
      if (reached && !(cost < node.cost)) return;
      if (is_hopeless(cost + node.least)) return;
      const Cost arrived = cost + model_.edge(state, move);
      if (reached && !(arrived < node.cost)) return;
      if (is_hopeless(arrived + node.least)) return;
      node.cost = arrived;
      node.parent = at;
      node.move = move;
      node.done = false;  // the bound is not always consistent, so a settled node may be improved
      if (node.state == states_.goal()) {
        has_bound_ = true;
        bound_ = arrived;
      }
      open_.push({arrived + node.least, to});
    });
  }

  bool is_hopeless(const Cost& total) {
    if (has_bound_ && !(total < bound_)) return true;
    if (!limit_ || !(*limit_ < total)) return false;
    gave_up_ = true;
    return true;
  }

  void trace(Found& found) const {
    const auto goal = number_.find(states_.goal());
    if (goal == number_.end()) return;
    // The goal may have been met as a neighbour but never entered.
    if (goal->second != 0 && nodes_[static_cast<size_t>(goal->second)].parent < 0) return;
    found.reached = true;
    for (int at = goal->second; nodes_[static_cast<size_t>(at)].parent >= 0;) {
      const Node& node = nodes_[static_cast<size_t>(at)];
      found.path.insert(found.path.begin(),
                        {nodes_[static_cast<size_t>(node.parent)].state, node.move});
      at = node.parent;
    }
  }

  PlacementStates& states_;
  Model model_;
  int64_t max_states_;
  std::vector<Node> nodes_;
  std::unordered_map<PlacementState, int, Hash> number_;
  std::priority_queue<Entry> open_;
  bool has_bound_ = false;
  Cost bound_{};  // cost of the best plan so far
  std::optional<Cost> limit_;
  bool gave_up_ = false;
};

bool is_byte_price(const PriceFunction& price) {
  using Function = Price (*)(const PlanStep&);
  const Function* function = price.target<Function>();
  return function != nullptr && *function == &price_by_bytes;
}

Found search(PlacementStates& states, const Spec& from, const PlannerOptions& options) {
  if (is_byte_price(options.price)) return Search(states, ByteModel(states, from), options).run();
  return Search(states, PriceModel(states, options.price), options).run();
}

// Returns the path as a plan. Consecutive local steps become one; the last step ends at exactly
// `to`.
Plan plan_of(PlacementStates& states, const Found& found, const Spec& from, const Spec& to) {
  Plan plan{from, to, {}};
  for (const auto& [state, move] : found.path) {
    PlanStep step = states.step_of(state, move);
    if (!plan.steps.empty()) step.from = plan.steps.back().to;
    const bool joins = step.kind == StepKind::local && !plan.steps.empty() &&
                       plan.steps.back().kind == StepKind::local;
    if (!joins) {
      plan.steps.push_back(std::move(step));
      continue;
    }
    PlanStep& last = plan.steps.back();
    last.axes.insert(last.axes.end(), step.axes.begin(), step.axes.end());
    std::sort(last.axes.begin(), last.axes.end());
    last.axes.erase(std::unique(last.axes.begin(), last.axes.end()), last.axes.end());
    last.to = std::move(step.to);
  }
  if (plan.steps.empty() && from != to) plan.steps.push_back({StepKind::local, {}, from, to});
  return plan;
}

void check_pair(const Spec& from, const Spec& to) {
  if (from.shape() != to.shape() || from.dtype() != to.dtype())
    throw_bad_input("{} cannot become {}: a redistribution changes neither shape nor dtype",
                    to_string(from), to_string(to));
}

void check_partials(const Spec& from, const Spec& to) {
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis) {
    const Placement &a = from.placement(axis), &b = to.placement(axis);
    if (a.is_partial() && b.is_partial() && a != b && from.mesh().axis_size(axis) > 1)
      throw_bad_input("axis '{}' cannot go from {} to {}: reduce it first",
                      from.mesh().axes()[static_cast<size_t>(axis)].name, to_string(a),
                      to_string(b));
  }
}

// Returns the spec with R in place of each P.
Spec reduced(Spec spec) {
  for (int axis : spec.partial_axes()) spec = spec.with_placement(axis, R());
  return spec;
}

void append_steps(Plan& plan, Plan more) {
  for (PlanStep& step : more.steps) plan.steps.push_back(std::move(step));
}

// Reduces partials on the source mesh, transfers, and makes partials on the target mesh.
PlannerResult plan_across_meshes(const Spec& from, const Spec& to, const PlannerOptions& options) {
  const Spec whole = reduced(from), arrived = reduced(to);
  PlannerResult before = plan_redistribution(from, whole, options);
  PlannerResult after = plan_redistribution(arrived, to, options);
  PlannerResult result;
  result.plan = {from, to, std::move(before.plan.steps)};
  result.plan.steps.push_back({StepKind::transfer, {}, whole, arrived});
  append_steps(result.plan, std::move(after.plan));
  result.states = before.states + after.states;
  result.price = price_of(result.plan, options.price);
  result.gather_then_slice = result.price;
  return result;
}

}  // namespace

PlannerResult plan_redistribution(const Spec& from, const Spec& to, const PlannerOptions& options) {
  check_pair(from, to);
  if (from.mesh() != to.mesh()) return plan_across_meshes(from, to, options);
  check_partials(from, to);
  PlannerResult result;
  result.plan = {from, to, {}};
  if (from == to) return result;
  const Plan naive = gather_then_slice(from, to);
  result.gather_then_slice = price_of(naive, options.price);

  PlacementStates states(from, to, PlacementStates::Axes::needed);
  Found found = search(states, from, options);
  result.states = found.states;
  if (found.reached) {
    result.plan = plan_of(states, found, from, to);
  } else if (found.gave_up) {
    result.gave_up = options.at_most < result.gather_then_slice;
  } else {
    PlacementStates wider(from, to, PlacementStates::Axes::all);
    found = search(wider, from, options);
    result.states += found.states;
    if (found.reached) result.plan = plan_of(wider, found, from, to);
  }
  result.price = price_of(result.plan, options.price);
  if (!found.reached || result.gather_then_slice < result.price) {
    result.plan = naive;
    result.price = result.gather_then_slice;
  }
  return result;
}

}  // namespace shardproof
