// Implements gather_then_slice of planner.h, the naive plan. It reduces each P that changes and
// gathers the axes of each dim whose cuts change, the last cut first. Then it slices as the target
// states and joins consecutive local steps.
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

namespace {

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

}  // namespace shardproof
