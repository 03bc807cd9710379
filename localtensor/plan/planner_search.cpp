// Implements planner_search.h.
//
//   1. Nodes are states: which axes cut which dim in which order, and which axes are partial. Edges
//      are legal steps (for_each_move). The cost of a path is the price of its steps.
//   2. Collectives alone: a path near the lower bound comes first (search_bound_path.h). If it
//      costs no more than the bound of the start, the search ends. Otherwise its cost is the first
//      limit: lower bounds are computed only as far as they show that a path cannot cost less.
//   3. The open node with the least (cost so far + lower bound of the rest) is settled next. Ties
//      go to the node found first, so that plans depend on nothing but the specs. A step whose cost
//      takes long to compute waits in the same queue with a lower bound of its cost. So do the
//      calls over a set of axes, if there is a bound for all of them.
//   4. With a peak limit, a step that exceeds it runs in pieces (step_pieces.h), which cost a call
//      each, or not at all. Lower bounds ignore this. Slices of the start are joined, because the
//      source stays in memory besides their results. If the limit is below what any last step holds
//      (least_of_last_step), only steps from the start to the goal are tried. smallest_peak runs
//      the same search with PeakModel, whose cost of a path is its largest peak.
//   5. The search ends when no open path can cost less than the best one, after max_states, or when
//      every open path costs more than at_most. If it ends early, a greedy path follows: each
//      move has the least (cost + lower bound of the rest). The better result is returned.
//
// With price_without_topology, ByteModel computes costs only from layouts, in integers. The unit is
// a byte / (world^2 * frozen parts), so equal prices are equal integers.
//
// Lower bound by example: "dp=2, tp=2", f32[8, 8], "dp:S(0) tp:S(0)" to "dp:S(0) tp:S(1)". Along tp
// the ranks share 128 bytes. A rank ends with one half of the columns, and begins with one half of
// the rows: 1/4 of the bytes belong to both. So it must receive 1/2 - 1/4 = 1/4, 32 bytes. An
// all_to_all sends just that, and the search settles two states: the start and the goal.
//
// Lower bound with partials: m ranks hold partials of an element, and h ranks hold it in the goal.
// At least m - 1 messages add it up and h messages deliver it, one less if a rank is in both sets.
#include "shardproof/localtensor/plan/planner_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/search_bound_path.h"
#include "shardproof/localtensor/plan/step_pieces.h"

namespace shardproof {

namespace {

// If a tensor has two dims and the mesh more ranks than this, moves that ShuffleBound leaves out
// can cost less. Only its first path is used then.
constexpr int64_t kMaxRanksOfTwoDims = 128;

// Computes price_without_topology from the layouts of states, without making specs.
class ByteModel {
 public:
  using Cost = ExactCost;
  static constexpr bool kLimitsPeak = false;
  static bool wins(const Cost& cost, const Cost& best) { return cost < best; }
  ByteModel(PlacementStates& states, const Spec& spec, PlanMoves moves)
      : states_(states),
        itemsize_(size_of(spec.dtype())),
        world_(states.members(states.active())),
        goal_parts_(states.goal_parts()),
        one_prime_(states.has_one_prime()) {
    square_ = Int128{world_} * world_;
    unit_ = square_ * states.frozen_parts();
    whole_ = Int128{element_count(spec.shape())} * itemsize_;
    if (moves == PlanMoves::all || !(states_.is_shuffle() || states_.is_chunked())) return;
    const auto held = static_cast<int64_t>(whole_ / states_.frozen_parts());
    shuffle_.emplace(states_, ShuffleUnits{square_ * whole_, unit_ * kBytesOfCall, held});
    const bool many_ranks = states_.members(states_.all_axes()) > kMaxRanksOfTwoDims;
    if (states_.is_shuffle() || states_.dims().size() > 2 || !many_ranks) return;
    first_path_ = first_path();
    shuffle_.reset();
  }

  // Returns a limit that is not below the price, which is rounded.
  Cost limit(const Price& price) const {
    const long double bytes = std::ceil(static_cast<long double>(price.primary) * unit_) + 1;
    return {static_cast<Int128>(bytes), std::numeric_limits<int64_t>::max()};
  }
  double difference(const Cost& a, const Cost& b) const {
    return static_cast<double>(static_cast<long double>(a.primary - b.primary) / unit_);
  }

  Cost edge(const PlacementState& from, const PlacementMove& move) {
    const int64_t before = states_.elements(from) * itemsize_;
    const int64_t after = states_.elements(move.to) * itemsize_;
    const int64_t peak = before + after;
    if (move.kind == StepKind::local) return {0, peak};
    const int64_t n = states_.members(move.axes);
    const Int128 part = square_ / states_.parts_of(from) * whole_, call = unit_ * kBytesOfCall;
    switch (move.kind) {
      case StepKind::all_gather:
        return {square_ / states_.parts_of(move.to) * whole_ - part + call, peak + after};
      case StepKind::all_to_all:
        if (!states_.is_balanced(from, move))
          return {(n - 1) * states_.piece_elements(from, move) * itemsize_ * unit_ + call,
                  2 * peak};
        if (nests(from, move.to)) return {part / n * (n - 1) + call, 2 * peak};
        return {missing(from, move.to) + call, 2 * peak};
      case StepKind::reduce_scatter: return {part / n * (n - 1) + call, peak + before};
      case StepKind::all_reduce: return {part / n * (2 * (n - 1)) + call, peak};
      default: return {missing(from, move.to) + call, 2 * peak};
    }
  }

  // Returns the cost of a step of this cost in pieces.
  Cost in_pieces(const Cost& cost, const PlanStep& step) const {
    return {cost.primary + unit_ * kBytesOfCall * (step.pieces - 1), cost.peak};
  }

  // Returns a lower bound of the cost of a move that takes long to compute; nullopt for others.
  std::optional<Cost> bound_of_slow(const PlacementState& from, const PlacementMove& move) {
    const bool missing = move.kind == StepKind::exchange ||
                         (move.kind == StepKind::all_to_all && !nests(from, move.to));
    if (!missing) return std::nullopt;
    const Int128 held = square_ / states_.parts_of(move.to) * whole_;
    const Int128 common = unit_ * states_.common_at_most(from, move.to) * itemsize_;
    Cost bound{unit_ * kBytesOfCall + std::max(held - common, Int128{0}), 0};
    if (shuffle_) bound = std::max(bound, shuffle_->least_call(from, move.to, move.axes));
    return bound;
  }

  // Returns a lower bound of the cost from `state` to the goal.
  Cost least(const PlacementState& state) {
    if (shuffle_) return shuffle_->least(state);
    if ((states_.goal().partial & states_.active()) != 0) return {};
    const uint64_t ending = states_.ending(state);
    Int128 parts = 0;  // fraction of the whole, times world^2
    if (ending != 0) {
      const int64_t agreeing = std::max<int64_t>(states_.agreeing_parts(state), 1);
      parts = square_ / goal_parts_ + square_ / world_ * (states_.members(ending) - 1) -
              square_ / world_ / agreeing;
    } else {
      const int64_t common = states_.common_parts(state);
      const int64_t had = common > 0 ? common : states_.parts_of(state);
      parts = square_ / goal_parts_ - square_ / had;
    }
    if (parts <= 0 && ending == 0) return {};
    return {std::max(parts, Int128{0}) * whole_ + unit_ * kBytesOfCall, 0};
  }

  // Returns a bound that takes less time than least.
  Cost quick_least(const PlacementState& state) {
    return shuffle_ ? shuffle_->quick_least(state) : least(state);
  }
  // True if late_least may be higher than quick_least.
  bool has_late_bound() const { return true; }
  // Returns a bound that is not lower than least and takes longer: without partials, ranks receive
  // what they miss. If paths of this cost to the state cannot cost less than `best`, returns some
  // bound that shows this.
  Cost late_least(const PlacementState& state, const Cost& cost, const std::optional<Cost>& best) {
    const Cost bound = shuffle_ ? shuffle_->least(state, room(cost, best)) : least(state);
    const uint64_t partial = (state.partial | states_.goal().partial) & states_.active();
    if (shuffle_ || partial != 0) return bound;
    const Int128 missed = missing(state, states_.goal());
    return missed == 0 ? bound : std::max(bound, Cost{missed + unit_ * kBytesOfCall, 0});
  }
  // True if least_over has bounds.
  bool bounds_calls() const { return shuffle_.has_value(); }
  // False for an all_to_all that is not tried.
  bool tries(const PlacementState& from, const PlacementMove& move) {
    return !shuffle_ || move.kind != StepKind::all_to_all ||
           shuffle_->tries(from, move.to, move.axes);
  }
  // Returns those of the axes that an all_to_all over them only moves to their goals.
  uint64_t only_to_goal(const PlacementState& from, uint64_t axes) {
    return shuffle_ ? shuffle_->only_to_goal(from, axes) : 0;
  }
  // Returns a lower bound of the cost from `state` to the goal if the next step is this call.
  // `cost` and `best` are those of late_least.
  Cost least_over(const PlacementState& state, StepKind kind, uint64_t axes, const Cost& cost,
                  const std::optional<Cost>& best) {
    return shuffle_ ? shuffle_->least_over(state, kind, axes, room(cost, best)) : Cost{};
  }

  // Returns a path that may cost little more than least(start); empty if none is found.
  std::vector<PlacementMove> first_path() {
    if (!shuffle_) return first_path_;
    return path_at_bound(
        states_, *shuffle_,
        [&](const PlacementState& from, const PlacementMove& move) { return edge(from, move); });
  }

 private:
  static Int128 room(const Cost& cost, const std::optional<Cost>& best) {
    return best ? best->primary - cost.primary : ShuffleBound::kNoLimit;
  }
  // True if both states are even and all digits are digits of one number. Then an axis of n ranks
  // agrees on 1 / n of its elements.
  bool nests(const PlacementState& from, const PlacementState& to) const {
    return one_prime_ && states_.is_even(from) && states_.is_even(to);
  }
  Int128 missing(const PlacementState& from, const PlacementState& to) {
    const Fraction elements = states_.missing(from, to);
    return unit_ / elements.den() * elements.num() * itemsize_;
  }

  PlacementStates& states_;
  std::optional<ShuffleBound> shuffle_;  // only collectives, between even layouts
  std::vector<PlacementMove> first_path_;
  int64_t itemsize_;
  int64_t world_, goal_parts_;
  bool one_prime_;
  Int128 square_ = 1, unit_ = 1, whole_ = 0;
};

// Any other price: a step is priced from its specs, and there is no lower bound.
class PriceModel {
 public:
  using Cost = Price;
  static constexpr bool kLimitsPeak = false;
  static bool wins(const Cost& cost, const Cost& best) { return cost < best; }
  Cost limit(const Price& price) const { return price; }
  double difference(const Cost& a, const Cost& b) const { return a.primary - b.primary; }
  PriceModel(PlacementStates& states, const PriceFunction& price)
      : states_(states), price_(price) {}
  Cost edge(const PlacementState& from, const PlacementMove& move) {
    return price_(states_.step_of(from, move));
  }
  Cost in_pieces(const Cost&, const PlanStep& step) const { return price_(step); }
  std::optional<Cost> bound_of_slow(const PlacementState&, const PlacementMove&) const {
    return std::nullopt;
  }
  Cost least(const PlacementState&) const { return {}; }
  Cost quick_least(const PlacementState&) const { return {}; }
  bool has_late_bound() const { return false; }
  Cost late_least(const PlacementState&, const Cost&, const std::optional<Cost>&) const {
    return {};
  }
  bool bounds_calls() const { return false; }
  bool tries(const PlacementState&, const PlacementMove&) const { return true; }
  uint64_t only_to_goal(const PlacementState&, uint64_t) const { return 0; }
  Cost least_over(const PlacementState&, StepKind, uint64_t, const Cost&,
                  const std::optional<Cost>&) const {
    return {};
  }
  std::vector<PlacementMove> first_path() const { return {}; }

 private:
  PlacementStates& states_;
  const PriceFunction& price_;
};

// The most bytes that a rank holds during a path. Paths with the same peak are ordered by their
// lower bound of the price.
struct PeakCost {
  int64_t peak = 0;
  ExactCost price;
  bool operator==(const PeakCost&) const = default;
  bool operator<(const PeakCost& o) const {
    return peak != o.peak ? peak < o.peak : price < o.price;
  }
};
PeakCost operator+(const PeakCost& a, const PeakCost& b) {
  return {std::max(a.peak, b.peak), a.price + b.price};
}

// Finds the path with the least peak, if every step runs in as many pieces as help.
class PeakModel {
 public:
  using Cost = PeakCost;
  static constexpr bool kLimitsPeak = true;
  PeakModel(PlacementStates& states, const Spec& spec, PlanMoves moves)
      : states_(states),
        itemsize_(size_of(spec.dtype())),
        source_bytes_(spec.max_local_elements() * itemsize_),
        last_(source_bytes_ + states.least_of_last_step() * itemsize_),
        model_(states, spec, moves) {}
  static bool wins(const Cost& cost, const Cost& best) { return cost.peak < best.peak; }
  Cost limit(const Price& price) const { return {0, model_.limit(price)}; }
  double difference(const Cost& a, const Cost& b) const {
    return model_.difference(a.price, b.price);
  }
  Cost edge(const PlacementState& from, const PlacementMove& move) {
    return {least_peak_bytes(states_.step_of(from, move)) + retained_bytes(from), {}};
  }
  Cost in_pieces(const Cost& cost, const PlanStep&) const { return cost; }
  std::optional<Cost> bound_of_slow(const PlacementState& from, const PlacementMove& move) {
    const int64_t elements = states_.elements(from) + states_.elements(move.to);
    return Cost{elements * itemsize_ + retained_bytes(from), {}};
  }
  Cost least(const PlacementState& state) { return quick_least(state); }
  Cost quick_least(const PlacementState& state) {
    return {least_peak(state), model_.quick_least(state)};
  }
  bool has_late_bound() const { return true; }
  Cost late_least(const PlacementState& state, const Cost&, const std::optional<Cost>&) {
    return {least_peak(state), model_.late_least(state, {}, {})};
  }
  bool bounds_calls() const { return false; }
  bool tries(const PlacementState& from, const PlacementMove& move) {
    return model_.tries(from, move);
  }
  uint64_t only_to_goal(const PlacementState&, uint64_t) const { return 0; }
  Cost least_over(const PlacementState&, StepKind, uint64_t, const Cost&,
                  const std::optional<Cost>&) const {
    return {};
  }
  std::vector<PlacementMove> first_path() { return model_.first_path(); }

 private:
  int64_t least_peak(const PlacementState& state) const {
    return state == states_.start() || state == states_.goal() ? 0 : last_;
  }
  int64_t retained_bytes(const PlacementState& state) const {
    return state == states_.start() ? 0 : source_bytes_;
  }

  PlacementStates& states_;
  int64_t itemsize_, source_bytes_, last_;
  ByteModel model_;
};

// The A* search; see the top of this file.
template <typename Model>
class Search {
 public:
  using Cost = typename Model::Cost;
  Search(PlacementStates& states, const Spec& from, Model model, const PlannerOptions& options)
      : states_(states),
        source_bytes_(from.max_local_elements() * size_of(from.dtype())),
        element_bytes_(size_of(from.dtype())),
        model_(std::move(model)),
        max_states_(options.max_states),
        peak_limit_(options.peak_limit) {
    if (options.at_most) limit_ = model_.limit(*options.at_most);
    direct_ =
        peak_limit_ && *peak_limit_ < source_bytes_ + states_.least_of_last_step() * element_bytes_;
  }

  // Returns the cost of the cheapest path, or `bound` if none costs less.
  Cost least_below(const Cost& bound) {
    bound_ = bound;
    run();
    return *bound_;
  }

  FoundPath run() {
    nodes_.push_back({states_.start(), Cost{}, model_.least(states_.start()), -1, {}, false, true});
    number_.emplace(states_.start(), 0);
    open_.push({nodes_[0].least, 0});
    FoundPath found;
    follow_first_path();
    while (!open_.empty() && found.states < max_states_) {
      const Entry entry = open_.top();
      if (bound_ && !Model::wins(entry.total, *bound_)) break;
      open_.pop();
      if (entry.parent < 0 && entry.move >= 0) {
        expand_calls(entry);
        continue;
      }
      if (raise_bound(entry)) continue;
      if (entry.parent >= 0) {
        follow(entry);
        continue;
      }
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
    const bool ends_early =
        !found.reached && !open_.empty() && (!bound_ || Model::wins(open_.top().total, *bound_));
    if (ends_early) walk_greedily();
    trace(found);
    found.gave_up = gave_up_;
    if (!open_.empty() && !(bound_ && !(open_.top().total < *bound_)))
      found.at_least = model_.difference(open_.top().total, Cost{});
    return found;
  }

 private:
  struct Node {
    PlacementState state;
    Cost cost{}, least{};  // so far; lower bound of the rest: quick_least, from its turn late_least
    int parent = -1;
    PlacementMove move;
    bool done = false, bounded = false;  // bounded: `least` is not only quick_least
  };
  struct Entry {
    Cost total;
    int node;
    // A slow move: its first node, and its number in moves_. Calls over a set of axes: -1, and
    // their number in calls_. Otherwise -1.
    int parent = -1, move = -1;
    bool operator<(const Entry& o) const {  // reversed: std::priority_queue returns the largest
      if (!(total == o.total)) return o.total < total;
      if (node != o.node) return node > o.node;
      return move > o.move;
    }
  };
  struct SlowMove {
    PlacementMove move;
    Cost least;  // lower bound of its cost
  };
  struct Calls {
    StepKind kind;
    uint64_t axes;
  };
  struct Hash {
    size_t operator()(const PlacementState& s) const { return static_cast<size_t>(s.hash()); }
  };

  // Stores the costs of the states of the model's path.
  void follow_first_path() {
    int at = 0;
    for (const PlacementMove& move : model_.first_path()) {
      const Node& node = nodes_[static_cast<size_t>(at)];
      const Cost edge = model_.edge(node.state, move);
      const int to = number_of(move);
      arrive(at, to, move, edge);
      if (nodes_[static_cast<size_t>(to)].parent != at) return;
      at = to;
    }
  }

  // Follows, from the start, the move with the least cost and lower bound, and stores the costs of
  // its states.
  void walk_greedily() {
    constexpr int kMostSteps = 12;
    std::vector<int> path = {0};
    while (path.size() <= kMostSteps &&
           !(nodes_[static_cast<size_t>(path.back())].state == states_.goal())) {
      const int at = path.back();
      const Node from = nodes_[static_cast<size_t>(at)];
      std::optional<std::pair<Cost, PlacementMove>> best;
      Cost best_edge{};
      states_.for_each_move(
          from.state,
          [&](const PlacementMove& move) {
            if (!model_.tries(from.state, move)) return;
            const Cost least = from.cost + model_.least(move.to);
            const Cost slow = model_.bound_of_slow(from.state, move).value_or(Cost{});
            if (best && !(slow + least < best->first)) return;
            const Cost edge = model_.edge(from.state, move);
            if (best && !(edge + least < best->first)) return;
            const std::optional<Cost> limited = within_limit(from.state, move, edge);
            if (!limited || (best && !(*limited + least < best->first))) return;
            const auto known = number_.find(move.to);
            if (known != number_.end() &&
                std::find(path.begin(), path.end(), known->second) != path.end())
              return;
            best = {*limited + least, move};
            best_edge = *limited;
          },
          [&](StepKind kind, uint64_t axes) {
            return best && !(from.cost + model_.least_over(from.state, kind, axes, from.cost, {}) <
                             best->first);
          });
      if (!best) return;
      path.push_back(number_of(best->second));
      arrive(at, path.back(), best->second, best_edge);
      if (path.back() != 0 && nodes_[static_cast<size_t>(path.back())].parent < 0) return;
    }
  }

  void expand(int at) {
    const PlacementState state = nodes_[static_cast<size_t>(at)].state;
    const Cost cost = nodes_[static_cast<size_t>(at)].cost;
    std::vector<PlacementMove> chains;
    states_.for_each_move(
        state,
        [&](const PlacementMove& move) {
          if ((peak_limit_ || Model::kLimitsPeak) && move.kind == StepKind::local)
            slice(at, state, move, chains);
          else
            reach(at, state, move);
        },
        [&](StepKind kind, uint64_t axes) {
          if (model_.bounds_calls())
            add_calls(at, cost + model_.least_over(state, kind, axes, cost, bound_), {kind, axes});
          return model_.bounds_calls();
        });
    slice_further(at, state, std::move(chains));
  }

  // Adds the calls over a set of axes to the queue; their paths cost no less than `least`.
  void add_calls(int at, const Cost& least, Calls calls) {
    if (is_hopeless(least)) return;
    const Node& node = nodes_[static_cast<size_t>(at)];
    open_.push({std::max(node.cost + node.least, least), at, -1, static_cast<int>(calls_.size())});
    calls_.push_back(calls);
  }

  void expand_calls(const Entry& entry) {
    const PlacementState state = nodes_[static_cast<size_t>(entry.node)].state;
    const auto [kind, axes] = calls_[static_cast<size_t>(entry.move)];
    const uint64_t to_goal = kind == StepKind::all_to_all ? model_.only_to_goal(state, axes) : 0;
    states_.for_each_call(state, kind, axes, to_goal,
                          [&](const PlacementMove& move) { reach(entry.node, state, move); });
  }

  // Reaches the result of local steps, if it fits. If further steps may fit better as one with
  // these than as a step of their own, adds these to `chains`.
  void slice(int at, const PlacementState& state, const PlacementMove& move,
             std::vector<PlacementMove>& chains) {
    const bool fits = within_limit(state, move, {}).has_value();
    if (fits) reach(at, state, move);
    const bool grows = states_.elements(state) < states_.elements(move.to);
    if (!fits || grows || Model::kLimitsPeak || state == states_.start()) chains.push_back(move);
  }

  // Joins local steps with further ones, as plan_of does.
  void slice_further(int at, const PlacementState& state, std::vector<PlacementMove> chains) {
    std::unordered_set<PlacementState, Hash> seen;
    while (!chains.empty()) {
      const PlacementMove first = chains.back();
      chains.pop_back();
      states_.for_each_move(
          first.to,
          [&](PlacementMove move) {
            if (move.kind != StepKind::local || !seen.insert(move.to).second) return;
            move.axes |= first.axes;
            slice(at, state, move, chains);
          },
          [](StepKind, uint64_t) { return true; });
    }
  }

  // Computes the lower bound of a node whose turn has come. If it is higher than the quick one, the
  // entry goes back into the queue and true is returned.
  bool raise_bound(Entry entry) {
    Node& node = nodes_[static_cast<size_t>(entry.node)];
    if (node.bounded) return false;
    node.bounded = true;
    Cost cost = node.cost;
    if (entry.parent >= 0) {
      const Node& from = nodes_[static_cast<size_t>(entry.parent)];
      cost = from.cost + moves_[static_cast<size_t>(entry.move)].least;
    }
    const Cost least = model_.late_least(node.state, cost, bound_);
    if (!(node.least < least)) return false;
    node.least = least;
    entry.total = std::max(entry.total, cost + least);
    open_.push(entry);
    return true;
  }

  // Returns the number of the state that a move leads to.
  int number_of(const PlacementMove& move) {
    const auto [known, fresh] = number_.try_emplace(move.to, static_cast<int>(nodes_.size()));
    if (fresh)
      nodes_.push_back(
          {move.to, {}, model_.quick_least(move.to), -1, move, false, !model_.has_late_bound()});
    return known->second;
  }

  // True if a path of at least this cost may be the cheapest to a node and to the goal.
  bool is_better(int to, const Cost& cost) {
    const Node& node = nodes_[static_cast<size_t>(to)];
    const bool reached = node.parent >= 0 || to == 0;
    return !(reached && !(cost < node.cost)) && !is_hopeless(cost + node.least);
  }

  // Adds the move to the queue, or to the paths.
  void reach(int at, const PlacementState& state, const PlacementMove& move) {
    if (direct_ && !(move.to == states_.goal())) return;
    // Computing the cost of a step is slow, so other paths are dropped before.
    const Cost cost = nodes_[static_cast<size_t>(at)].cost;
    const auto known = number_.find(move.to);
    if (known != number_.end() && !is_better(known->second, cost)) return;
    if (!model_.tries(state, move)) return;
    const int to = known != number_.end() ? known->second : number_of(move);
    if (!is_better(to, cost)) return;
    const std::optional<Cost> slow = model_.bound_of_slow(state, move);
    if (!is_better(to, slow ? cost + *slow : cost)) return;
    const bool is_last = Model::kLimitsPeak && move.to == states_.goal();
    if (!slow || is_last) return arrive(at, to, move, model_.edge(state, move));
    Cost total = cost + *slow + nodes_[static_cast<size_t>(to)].least;
    if (!Model::kLimitsPeak) total = std::max(total, cost + nodes_[static_cast<size_t>(at)].least);
    open_.push({total, to, at, static_cast<int>(moves_.size())});
    moves_.push_back({move, *slow});
  }

  // Computes the cost of a slow move whose turn has come.
  void follow(const Entry& entry) {
    const Node& from = nodes_[static_cast<size_t>(entry.parent)];
    const auto& [move, least] = moves_[static_cast<size_t>(entry.move)];
    if (!is_better(entry.node, from.cost + least)) return;
    arrive(entry.parent, entry.node, move, model_.edge(from.state, move));
  }

  // Returns the cost of a move within the peak limit, given its cost without a limit. Returns
  // nullopt if no pieces of the move are within the limit.
  std::optional<Cost> within_limit(const PlacementState& state, const PlacementMove& move,
                                   const Cost& edge) {
    if (!peak_limit_) return edge;
    const int64_t retained = state == states_.start() ? 0 : source_bytes_;
    const int64_t elements = states_.elements(state) + states_.elements(move.to);
    if (*peak_limit_ < retained + elements * element_bytes_) return std::nullopt;
    PlanStep step = states_.step_of(state, move);
    if (!cut_to_limit(step, *peak_limit_ - retained)) return std::nullopt;
    return step.pieces == 1 ? edge : model_.in_pieces(edge, step);
  }

  // Stores a path that ends with this move if it is the cheapest to its end so far. Drops it if its
  // lower bound shows that it cannot become the cheapest path to the goal.
  void arrive(int at, int to, const PlacementMove& move, const Cost& edge) {
    const Node& from = nodes_[static_cast<size_t>(at)];
    if (!is_better(to, from.cost + edge)) return;
    const std::optional<Cost> limited = within_limit(from.state, move, edge);
    if (!limited || !is_better(to, from.cost + *limited)) return;
    Node& node = nodes_[static_cast<size_t>(to)];
    node.cost = from.cost + *limited;
    node.parent = at;
    node.move = move;
    node.bounded = !model_.has_late_bound();
    node.done = false;  // the bound is not always consistent, so a settled node may be improved
    if (node.state == states_.goal()) {
      bound_ = node.cost;
    }
    open_.push({node.cost + node.least, to});
  }

  bool is_hopeless(const Cost& total) {
    if (bound_ && !Model::wins(total, *bound_)) return true;
    if (!limit_ || !(*limit_ < total)) return false;
    gave_up_ = true;
    return true;
  }

  void trace(FoundPath& found) const {
    const auto goal = number_.find(states_.goal());
    if (goal == number_.end()) return;
    // The goal may be numbered, as the end of a move, and not be reached by a path.
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
  int64_t source_bytes_;  // on the rank with the largest part
  int64_t element_bytes_;
  bool direct_ = false;  // true if no plan of two steps is within the peak limit
  Model model_;
  int64_t max_states_;
  std::optional<int64_t> peak_limit_;
  std::vector<Node> nodes_;
  std::vector<SlowMove> moves_;
  std::vector<Calls> calls_;  // that wait in the queue
  std::unordered_map<PlacementState, int, Hash> number_;
  std::priority_queue<Entry> open_;
  std::optional<Cost> bound_;  // cost of the best plan so far
  std::optional<Cost> limit_;
  bool gave_up_ = false;
};

}  // namespace

bool has_lower_bounds(const PriceFunction& price) {
  using Function = Price (*)(const PlanStep&);
  const Function* function = price.target<Function>();
  return function != nullptr && *function == &price_without_topology;
}

int64_t smallest_peak(PlacementStates& states, const Spec& from, PlannerOptions options,
                      int64_t at_most) {
  options.peak_limit.reset();
  options.at_most.reset();
  Search search(states, from, PeakModel(states, from, options.moves), options);
  return search.least_below({at_most, {}}).peak;
}

FoundPath search_path(PlacementStates& states, const Spec& from, const PlannerOptions& options) {
  if (has_lower_bounds(options.price))
    return Search(states, from, ByteModel(states, from, options.moves), options).run();
  return Search(states, from, PriceModel(states, options.price), options).run();
}

}  // namespace shardproof
