// Implements planner.h.
//
//   1. A pair without partials: if every rank has what it needs, a local step. Otherwise one call
//      and the volume of an exchange are the least. plan_one_call gives free slices, then one named
//      collective if it sends no more, else an exchange. Both are optimal.
//   2. Other pairs, other prices, and plans without exchange: a search (planner_search.h).
//   3. If the goal cannot be reached with the axes that have to move, all axes take part
//      (Axes::all).
//   4. plan_of turns the path into steps. If the naive plan is cheaper, that is returned.
//
// A pair on two meshes takes one transfer, of values without partials. Partials are reduced before
// it, to whole values or to parts; replicas and new partials are made after it, from whole values
// or from parts. All these combinations are priced. If both meshes differ only in names, the
// target's placements may be reached on the source mesh, and the transfer sends nothing. Example:
// P(sum) on 4 ranks to P(sum) on 4 others: a reduce_scatter, a transfer of quarters, and each rank
// fills the rest with zeros.
//
// gather_then_slice, the naive plan, reduces each P that changes and gathers the axes of each dim
// whose cuts change, the last cut first. Then it slices as the target states and joins consecutive
// local steps.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/exchange_volume.h"
#include "shardproof/localtensor/plan/planner_search.h"
#include "shardproof/localtensor/plan/step_pieces.h"
#include "shardproof/localtensor/plan/transfer.h"

namespace shardproof {

namespace {

// Returns two local steps as one.
PlanStep joined(PlanStep first, const PlanStep& second) {
  first.axes.insert(first.axes.end(), second.axes.begin(), second.axes.end());
  std::sort(first.axes.begin(), first.axes.end());
  first.axes.erase(std::unique(first.axes.begin(), first.axes.end()), first.axes.end());
  first.to = second.to;
  return first;
}

// Cuts the last step into pieces within the peak limit. Returns false if it cannot.
bool fit_last(Plan& plan, const PlannerOptions& options) {
  const int64_t retained = retained_source_bytes(plan, plan.steps.size() - 1);
  return !options.peak_limit || cut_to_limit(plan.steps.back(), *options.peak_limit - retained);
}

// Returns the path as a plan. Consecutive local steps become one, unless it exceeds the peak limit;
// the last step ends at exactly `to`.
Plan plan_of(PlacementStates& states, const FoundPath& found, const Spec& from, const Spec& to,
             const PlannerOptions& options) {
  Plan plan{from, to, {}};
  for (const auto& [state, move] : found.path) {
    PlanStep step = states.step_of(state, move);
    if (!plan.steps.empty()) step.from = plan.steps.back().to;
    if (step.kind == StepKind::local && !plan.steps.empty() &&
        plan.steps.back().kind == StepKind::local) {
      const PlanStep alone = plan.steps.back();
      plan.steps.back() = joined(alone, step);
      if (fit_last(plan, options)) continue;
      plan.steps.back() = alone;
    }
    plan.steps.push_back(std::move(step));
    fit_last(plan, options);
  }
  if (plan.steps.empty() && from != to) plan.steps.push_back({StepKind::local, {}, from, to});
  return plan;
}

void check_pair(const Spec& from, const Spec& to) {
  if (from.shape() != to.shape() || from.dtype() != to.dtype())
    throw_bad_input("{} cannot become {}: a redistribution changes neither shape nor dtype",
                    to_string(from), to_string(to));
}

bool are_two_partials(const Placement& a, const Placement& b) {
  return a.is_partial() && b.is_partial() && a != b;
}

void check_partials(const Spec& from, const Spec& to) {
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis) {
    const Placement &a = from.placement(axis), &b = to.placement(axis);
    if (are_two_partials(a, b) && from.mesh().axis_size(axis) > 1)
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

// A plan. `fits` is true if its steps are within PlannerOptions::peak_limit.
struct LimitedResult : PlannerResult {
  bool fits = true;
};

// Cuts the steps into pieces within the peak limit. Returns false if a step cannot be cut so.
bool fit(Plan& plan, const PlannerOptions& options) {
  if (!options.peak_limit) return true;
  Plan fitted{plan.from, plan.to, {}};
  bool fits = true;
  for (const PlanStep& step : plan.steps) {
    fitted.steps.push_back(step);
    fits = fit_last(fitted, options) && fits;
  }
  plan = std::move(fitted);
  return fits;
}

bool is_cut(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(),
                     [](const PlanStep& step) { return step.pieces > 1; });
}

LimitedResult plan_pair(const Spec& from, const Spec& to, const PlannerOptions& options);

// Returns the spec with all axes of `axes` cutting `dim`.
Spec cut_along(Spec spec, const std::vector<int>& axes, int dim) {
  for (int axis : axes) spec = spec.with_placement(axis, S(dim));
  return spec;
}

// Appends the spec with these axes cutting each dim; without those that are in the list.
void add_cuts(const Spec& spec, const std::vector<int>& axes, std::vector<Spec>& specs) {
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    if (Spec cut = cut_along(spec, axes, dim);
        std::find(specs.begin(), specs.end(), cut) == specs.end())
      specs.push_back(std::move(cut));
}

// Returns the axes that do not cut.
std::vector<int> whole_axes(const Spec& spec) {
  std::vector<int> axes;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (!spec.placement(axis).is_shard()) axes.push_back(axis);
  return axes;
}

// Returns the specs without partials at which a transfer of a pair with partials may start or end.
// These are the spec with its partials reduced, and the whole tensor on each rank. Others also cut
// one dim of these. They cut the first by its partial axes or by all axes that do not cut, the
// second by all axes.
std::vector<Spec> transferable_specs(const Spec& spec) {
  const Spec whole = Spec::replicated(spec.mesh(), spec.shape(), spec.dtype());
  std::vector<Spec> specs = {reduced(spec)};
  for (const std::vector<int>& axes : {spec.partial_axes(), whole_axes(spec)})
    add_cuts(reduced(spec), axes, specs);
  if (std::find(specs.begin(), specs.end(), whole) == specs.end()) specs.push_back(whole);
  add_cuts(whole, whole_axes(whole), specs);
  return specs;
}

// True if the meshes differ only in the names of their axes.
bool differ_only_in_names(const Mesh& a, const Mesh& b) {
  if (a.shape() != b.shape()) return false;
  for (int64_t i = 0; i < a.size(); ++i) {
    const Dims coordinate = unravel(i, a.shape());
    if (a.rank_at(coordinate) != b.rank_at(coordinate)) return false;
  }
  return true;
}

// Appends the specs on a mesh that differs only in names, between which a transfer sends nothing.
void add_renamed(const std::vector<Spec>& others, const Mesh& mesh, std::vector<Spec>& specs) {
  for (const Spec& other : others)
    if (Spec spec(mesh, other.placements(), other.shape(), other.dtype(), other.order());
        std::find(specs.begin(), specs.end(), spec) == specs.end())
      specs.push_back(std::move(spec));
}

// Returns a plan: to the start of a transfer, the transfer, and on to the target.
LimitedResult plan_via_transfer(const LimitedResult& before, const LimitedResult& after,
                                const PlannerOptions& options) {
  LimitedResult result;
  result.plan = {before.plan.from, after.plan.to, before.plan.steps};
  result.plan.steps.push_back({StepKind::transfer, {}, before.plan.to, after.plan.from});
  append_steps(result.plan, after.plan);
  result.states = before.states + after.states;
  result.fits = fit(result.plan, options);
  result.price = price_of(result.plan, options.price);
  result.gather_then_slice = result.price;
  return result;
}

// Returns a plan that reaches the target's placements on the source mesh; the transfer after it
// sends nothing. Requires that both meshes differ only in the names of their axes.
std::optional<LimitedResult> plan_on_source_mesh(const Spec& from, const Spec& to,
                                                 const PlannerOptions& options) {
  if (!differ_only_in_names(from.mesh(), to.mesh())) return std::nullopt;
  const Spec renamed(from.mesh(), to.placements(), to.shape(), to.dtype(), to.order());
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis)
    if (are_two_partials(from.placement(axis), to.placement(axis))) return std::nullopt;
  if (to.has_partial() && !has_same_partials(renamed, to)) return std::nullopt;
  LimitedResult there;
  there.plan = {to, to, {}};
  return plan_via_transfer(plan_pair(from, renamed, options), there, options);
}

// Plans a transfer between the placements with the least price; see the top of this file.
LimitedResult plan_across_meshes(const Spec& from, const Spec& to, PlannerOptions options) {
  options.at_most.reset();
  if (from.has_partial() && to.has_partial() && has_same_partials(from, to)) {
    LimitedResult kept, there;
    kept.plan = {from, from, {}};
    there.plan = {to, to, {}};
    return plan_via_transfer(kept, there, options);
  }
  const bool partial = from.has_partial() || to.has_partial();
  std::vector<Spec> sources = {from}, targets = {to};
  if (from.has_partial()) sources = transferable_specs(from);
  if (partial) targets = transferable_specs(to);
  if (from.has_partial() && differ_only_in_names(from.mesh(), to.mesh())) {
    add_renamed(targets, from.mesh(), sources);
    add_renamed(sources, to.mesh(), targets);
  }
  std::vector<LimitedResult> before, after;
  for (const Spec& source : sources) before.push_back(plan_pair(from, source, options));
  for (const Spec& target : targets) after.push_back(plan_pair(target, to, options));
  LimitedResult best = plan_via_transfer(before[0], after[0], options);
  const auto offer = [&](LimitedResult other) {
    other.states += best.states;
    const bool wins = other.fits && (!best.fits || other.price < best.price);
    if (wins) best = std::move(other);
  };
  for (const LimitedResult& start : before)
    for (const LimitedResult& end : after)
      if (!best.fits || start.price + end.price < best.price)
        offer(plan_via_transfer(start, end, options));
  if (!partial) return best;
  if (auto renamed = plan_on_source_mesh(from, to, options)) offer(std::move(*renamed));
  return best;
}

// True if one named collective over the axes takes the sliced source to the goal. Sets its kind:
// all_gather if no axis cuts at the goal, all_to_all if all do.
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

// Returns a lower bound of the price of all plans, whatever they cut on the way. If n ranks hold
// partials of an element, n - 1 messages add it up. It is then sent to each rank of the target but
// one that has added it up. Ranks along an axis that becomes partial count as one rank. A reduction
// leaves other axes as they are: if ranks miss elements besides, another call follows.
double least_of_any_cuts(PlacementStates& states, const Spec& from) {
  const uint64_t ending = states.ending(states.start());
  const uint64_t made = states.goal().partial & states.active() & ~states.start().partial;
  PlacementState source = states.start();
  if (!states.remove_axes(source, made) || !states.has_spec(source)) return 0;
  const int64_t world = states.members(states.active()), together = states.members(made);
  const Fraction whole(element_count(from.shape()), states.frozen_parts());
  const Fraction missed = states.missing(source, states.goal()) * Fraction(1, together);
  const Fraction delivered = whole * Fraction(1, states.goal_parts() * together);
  Fraction sent = missed;
  if (ending != 0) {
    Fraction stays = std::min(whole * Fraction(1, world), delivered - missed);
    if (const int64_t parts = states.agreeing_parts(states.start()); made == 0 && parts > 0)
      stays = std::min(stays, whole * Fraction(1, world * parts));
    sent = whole * Fraction(states.members(ending) - 1, world) + delivered - stays;
  }
  const int64_t calls = (ending != 0 ? 1 : 0) + (missed == Fraction(0) ? 0 : 1);
  return sent.to_double() * static_cast<double>(size_of(from.dtype())) +
         static_cast<double>(calls * kBytesOfCall);
}

// Returns by how much a plan may cost less than one that was found, if the search does not try all
// cuts. 0 if it does.
double gap_to_other_cuts(PlacementStates& states, const Spec& from, const PlannerOptions& options,
                         const Price& found) {
  // Seconds count padding, so that a detour over cuts with less padding may cost less.
  const bool bytes = has_lower_bounds(options.price);
  if (states.tries_all_cuts() && (bytes || states.cuts_evenly())) return 0;
  const double least = bytes ? least_of_any_cuts(states, from) : 0;
  constexpr double kRounding = 1e-9;
  const double gap = found.primary - least;
  return gap <= kRounding * found.primary ? 0 : gap;
}

// Returns by how much an exchange may cost less than the plan found without it. The mesh has too
// many ranks for an exchange (can_exchange). 0 if the exchange was tried.
double gap_to_exchange(PlacementStates& states, const Spec& from, const Spec& to,
                       const PlannerOptions& options, const Price& found) {
  if (options.moves != PlanMoves::all || states.has_active_partials()) return 0;
  const uint64_t group = states.exchange_group(states.sliced_start(), states.goal());
  if (group == 0 || can_exchange(from.mesh(), list_of_axes(group))) return 0;
  if (!has_lower_bounds(options.price)) return found.primary;
  const double least = missing_elements(from, to).to_double() * size_of(from.dtype()) +
                       static_cast<double>(kBytesOfCall);
  return std::max(found.primary - least, 0.0);
}

LimitedResult plan_by_search(PlacementStates& states, const Spec& from, const Spec& to,
                             PlannerOptions options, Plan naive) {
  LimitedResult result;
  const bool naive_fits = fit(naive, options);
  result.gather_then_slice = price_of(naive, options.price);
  states.prepare_moves(options.moves);
  FoundPath found = search_path(states, from, options);
  result.states = found.states;
  if (found.reached) {
    result.plan = plan_of(states, found, from, to, options);
  } else if (found.gave_up) {
    result.gave_up = options.at_most < result.gather_then_slice;
  } else if (!found.at_least) {
    PlacementStates wider(from, to, PlacementStates::Axes::all);
    wider.prepare_moves(options.moves);
    found = search_path(wider, from, options);
    result.states += found.states;
    if (found.reached) result.plan = plan_of(wider, found, from, to, options);
  }
  result.price = price_of(result.plan, options.price);
  if (!found.reached || (result.gather_then_slice < result.price && naive_fits)) {
    result.plan = std::move(naive);
    result.price = result.gather_then_slice;
    result.fits = naive_fits;
  }
  if (found.at_least) result.gap = std::max(result.price.primary - *found.at_least, 0.0);
  return result;
}

// Plans with all axes, and returns that plan if it costs less than `needed`, whose axes have to
// move.
LimitedResult plan_with_replicas(const Spec& from, const Spec& to, PlannerOptions options,
                                 LimitedResult needed) {
  PlacementStates states(from, to, PlacementStates::Axes::all);
  states.prepare_moves(options.moves);
  if (needed.fits) options.at_most = needed.price;
  const FoundPath found = search_path(states, from, options);
  needed.states += found.states;
  if (!found.reached) return needed;
  Plan plan = plan_of(states, found, from, to, options);
  const Price price = price_of(plan, options.price);
  if (!fit(plan, options) || (needed.fits && !(price < needed.price))) return needed;
  needed.plan = std::move(plan);
  needed.price = price;
  needed.fits = true;
  needed.gap = found.at_least ? std::max(price.primary - *found.at_least, 0.0) : 0;
  needed.gap = std::max(needed.gap, gap_to_other_cuts(states, from, options, price));
  return needed;
}

LimitedResult plan_on_mesh(const Spec& from, const Spec& to, const PlannerOptions& options);

LimitedResult plan_pair(const Spec& from, const Spec& to, const PlannerOptions& options) {
  if (from.mesh() != to.mesh()) return plan_across_meshes(from, to, options);
  LimitedResult result = plan_on_mesh(from, to, options);
  const bool cuts = result.fits && is_cut(result.plan);
  if (!(options.use_replicas || cuts) || from == to || result.gave_up) return result;
  return plan_with_replicas(from, to, options, std::move(result));
}

LimitedResult plan_on_mesh(const Spec& from, const Spec& to, const PlannerOptions& options) {
  check_partials(from, to);
  LimitedResult result;
  result.plan = {from, to, {}};
  if (from == to) return result;
  Plan naive = gather_then_slice(from, to);
  const int64_t both = from.max_local_elements() + to.max_local_elements();
  if (options.peak_limit && *options.peak_limit < both * size_of(from.dtype())) {
    result.plan = std::move(naive);
    result.fits = false;  // every plan ends with source and target
    return result;
  }
  PlacementStates states(from, to, PlacementStates::Axes::needed);
  if (!states.has_active_partials() && has_lower_bounds(options.price)) {
    std::optional<Plan> plan = plan_one_call(states, from, to, options.moves);
    if (plan && fit(*plan, options) && !is_cut(*plan)) {
      result.plan = std::move(*plan);
      result.states = 1;
      result.price = price_of(result.plan);
      result.gather_then_slice = price_of(naive);
      result.gave_up = options.at_most && *options.at_most < result.price &&
                       *options.at_most < result.gather_then_slice;
      return result;
    }
  }
  result = plan_by_search(states, from, to, options, std::move(naive));
  result.gap = std::max({result.gap, gap_to_exchange(states, from, to, options, result.price),
                         gap_to_other_cuts(states, from, options, result.price)});
  return result;
}

// Returns the smallest peak limit to which the steps of a plan can keep, each in as many pieces as
// help.
int64_t least_peak_of(const Plan& plan) {
  int64_t least = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    least = std::max(least, least_peak_bytes(plan.steps[i]) + retained_source_bytes(plan, i));
  return least;
}

// Plans between two meshes with the smallest peak that is found. Each plan is followed by one with
// a smaller peak, until there is none.
LimitedResult plan_of_smallest_peak(const Spec& from, const Spec& to, PlannerOptions options) {
  options.at_most.reset();
  options.peak_limit.reset();
  LimitedResult smallest, next = plan_pair(from, to, options);
  while (next.fits) {
    smallest = std::move(next);
    options.peak_limit = least_peak_of(smallest.plan) - 1;
    next = plan_pair(from, to, options);
  }
  return smallest;
}

// Returns the smallest peak limit for which a plan is found.
int64_t smallest_limit(const Spec& from, const Spec& to, PlannerOptions options) {
  if (from.mesh() == to.mesh()) {
    const PlacementStates needed(from, to, PlacementStates::Axes::needed);
    if (!needed.has_active_partials() && missing_elements(from, to) == 0)
      return (from.max_local_elements() + to.max_local_elements()) * size_of(from.dtype());
    int64_t least = least_peak_of(gather_then_slice(from, to));
    uint64_t searched = 0;
    for (const auto axes : {PlacementStates::Axes::needed, PlacementStates::Axes::all}) {
      PlacementStates states(from, to, axes);
      if (states.active() == searched) continue;
      searched = states.active();
      states.prepare_moves(options.moves);
      least = smallest_peak(states, from, options, least);
    }
    return least;
  }
  return least_peak_of(plan_of_smallest_peak(from, to, options).plan);
}

void add_step(Plan& plan, StepKind kind, int axis, Spec to) {
  const Spec from = plan.steps.empty() ? plan.from : plan.steps.back().to;
  const bool calls = from.mesh().axis_size(axis) > 1;
  plan.steps.push_back({calls ? kind : StepKind::local, {axis}, from, std::move(to)});
}

// Returns, for each dim, true if its cuts differ; all axes of such a dim are gathered.
std::vector<bool> changed_dims(const Spec& from, const Spec& to) {
  std::vector<bool> changed;
  for (int dim = 0; dim < from.shape().size(); ++dim) {
    const std::vector<int> axes = from.axes_of_dim(dim);
    bool differs = axes != to.axes_of_dim(dim);
    for (int axis : axes) differs = differs || from.placement(axis) != to.placement(axis);
    changed.push_back(differs);
  }
  return changed;
}

void join_local_steps(Plan& plan) {
  std::vector<PlanStep> steps;
  for (PlanStep& step : plan.steps) {
    if (steps.empty() || step.kind != StepKind::local || steps.back().kind != StepKind::local) {
      steps.push_back(std::move(step));
      continue;
    }
    PlanStep& last = steps.back();
    last.axes.insert(last.axes.end(), step.axes.begin(), step.axes.end());
    std::sort(last.axes.begin(), last.axes.end());
    last.axes.erase(std::unique(last.axes.begin(), last.axes.end()), last.axes.end());
    last.to = std::move(step.to);
  }
  plan.steps = std::move(steps);
}

}  // namespace

Plan gather_then_slice(const Spec& from, const Spec& to) {
  SP_CHECK(from.mesh() == to.mesh(), "one mesh to gather on");
  Plan plan{from, to, {}};
  Spec at = from;
  const std::vector<bool> changed = changed_dims(from, to);
  for (int axis : from.partial_axes()) {
    if (from.placement(axis) == to.placement(axis)) continue;
    at = at.with_placement(axis, R());
    add_step(plan, StepKind::all_reduce, axis, at);
  }
  std::vector<int> order = from.order();
  std::reverse(order.begin(), order.end());
  for (int axis : order) {
    const Placement& placement = from.placement(axis);
    if (!placement.is_shard() || !changed[static_cast<size_t>(placement.shard().dim)]) continue;
    at = at.with_placement(axis, R());
    add_step(plan, StepKind::all_gather, axis, at);
  }
  for (int axis : to.order()) {
    if (at.placement(axis) == to.placement(axis)) continue;
    at = at.with_placement(axis, to.placement(axis));
    add_step(plan, StepKind::local, axis, at);
  }
  if (at != to) plan.steps.push_back({StepKind::local, {}, at, to});
  join_local_steps(plan);
  return plan;
}

std::string_view name(PlanMoves moves) { return moves == PlanMoves::all ? "all" : "collectives"; }

PlanMoves parse_plan_moves(std::string_view text) {
  for (const PlanMoves moves : {PlanMoves::all, PlanMoves::collectives})
    if (text == name(moves)) return moves;
  throw_bad_input("expected \"all\" or \"collectives\", found \"{}\"", text);
}

PlannerResult plan_redistribution(const Spec& from, const Spec& to, const PlannerOptions& options) {
  check_pair(from, to);
  LimitedResult result = plan_pair(from, to, options);
  if (result.fits || result.gave_up) return result;
  if (from.mesh() != to.mesh()) {
    // The parts of a plan are chosen by price alone, so they may not fit together.
    LimitedResult smallest = plan_of_smallest_peak(from, to, options);
    if (fit(smallest.plan, options)) {
      smallest.price = price_of(smallest.plan, options.price);
      return smallest;
    }
  }
  throw_bad_input(
      "every plan found holds more than {} B of the tensor on a rank; the smallest "
      "peak limit that works is {} B",
      *options.peak_limit, smallest_limit(from, to, options));
}

}  // namespace shardproof
