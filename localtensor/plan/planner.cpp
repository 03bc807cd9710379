// Implements planner.h.
//
//   1. A pair without partials: if every rank has what it needs, a local step. Else at least one
//      call and the volume of an exchange are needed: slices that cost nothing, then one named
//      collective if it sends no more, else an exchange (plan_one_call). Both are optimal.
//   2. Other pairs, other prices, and plans without exchange: a search (planner_search.h).
//   3. If the goal cannot be reached with the axes that have to move, all axes take part
//      (Axes::all).
//   4. plan_of turns the path into steps. If the naive plan is cheaper, that is returned.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/exchange_volume.h"
#include "shardproof/localtensor/plan/planner_search.h"

namespace shardproof {

namespace {

// Returns the path as a plan. Consecutive local steps become one; the last step ends at exactly
// `to`.
Plan plan_of(PlacementStates& states, const FoundPath& found, const Spec& from, const Spec& to) {
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

bool has_one_named_call(PlacementStates& states, const PlacementState& sliced, uint64_t axes,
                        StepKind& kind) {
  if (!states.cuts_all(sliced, axes)) return false;
  kind = StepKind::all_gather;
  if (!states.cuts_any(states.goal(), axes)) return true;
  kind = StepKind::all_to_all;
  return states.cuts_all(states.goal(), axes);
}

// Plans a pair without partials in one call, or none. Returns nullopt if the moves do not suffice.
std::optional<Plan> plan_one_call(PlacementStates& states, const Spec& from, const Spec& to,
                                  PlanMoves moves) {
  const uint64_t active = states.active();
  Plan plan{from, to, {}};
  if (missing_elements(from, to) == 0) {
    plan.steps = {{StepKind::local, list_of_axes(active), from, to}};
    return plan;
  }
  const PlacementState sliced = states.sliced_start();
  const uint64_t group = states.exchange_group(sliced, states.goal());
  if (moves != PlanMoves::all || !can_exchange(from.mesh(), list_of_axes(group)))
    return std::nullopt;
  PlanStep call{StepKind::exchange, list_of_axes(group), states.spec_of(sliced), to};
  const uint64_t left = states.moving_axes(sliced, states.goal());
  StepKind kind{};
  if (has_one_named_call(states, sliced, left, kind)) {
    PlanStep named = call;
    named.kind = kind;
    if (price_without_topology(named).primary <= price_without_topology(call).primary)
      call = std::move(named);
  }
  if (!(sliced == states.start()))
    plan.steps.push_back({StepKind::local, list_of_axes(active & ~left), from, call.from});
  plan.steps.push_back(std::move(call));
  return plan;
}

PlannerResult plan_by_search(PlacementStates& states, const Spec& from, const Spec& to,
                             PlannerOptions options, const Plan& naive) {
  PlannerResult result;
  result.gather_then_slice = price_of(naive, options.price);
  states.prepare_moves(options.moves);
  FoundPath found = search_path(states, from, options);
  result.states = found.states;
  if (found.reached) {
    result.plan = plan_of(states, found, from, to);
  } else if (found.gave_up) {
    result.gave_up = options.at_most < result.gather_then_slice;
  } else if (!found.at_least) {
    PlacementStates wider(from, to, PlacementStates::Axes::all);
    wider.prepare_moves(options.moves);
    found = search_path(wider, from, options);
    result.states += found.states;
    if (found.reached) result.plan = plan_of(wider, found, from, to);
  }
  result.price = price_of(result.plan, options.price);
  if (!found.reached || result.gather_then_slice < result.price) {
    result.plan = naive;
    result.price = result.gather_then_slice;
  }
  if (found.at_least) result.gap = std::max(result.price.primary - *found.at_least, 0.0);
  return result;
}

}  // namespace

std::string_view name(PlanMoves moves) { return moves == PlanMoves::all ? "all" : "collectives"; }

PlanMoves parse_plan_moves(std::string_view text) {
  for (const PlanMoves moves : {PlanMoves::all, PlanMoves::collectives})
    if (text == name(moves)) return moves;
  throw_bad_input("expected all or collectives, found \"{}\"", text);
}

PlannerResult plan_redistribution(const Spec& from, const Spec& to, const PlannerOptions& options) {
  check_pair(from, to);
  if (from.mesh() != to.mesh()) return plan_across_meshes(from, to, options);
  check_partials(from, to);
  PlannerResult result;
  result.plan = {from, to, {}};
  if (from == to) return result;
  const Plan naive = gather_then_slice(from, to);
  PlacementStates states(from, to, PlacementStates::Axes::needed);
  if (!states.has_active_partials() && has_lower_bounds(options.price)) {
    if (std::optional<Plan> plan = plan_one_call(states, from, to, options.moves)) {
      result.plan = std::move(*plan);
      result.states = 1;
      result.price = price_of(result.plan);
      result.gather_then_slice = price_of(naive);
      result.gave_up = options.at_most && *options.at_most < result.price &&
                       *options.at_most < result.gather_then_slice;
      return result;
    }
  }
  return plan_by_search(states, from, to, options, naive);
}

}  // namespace shardproof
