// Implements greedy_plan.h in two passes:
//
//   1. If the source is cut, each axis from the last to the first takes its target, or R if the
//      axes before it do not cut the dim of its target as they will in the end.
//   2. The axes that still differ take their targets, from the first axis to the last.
//
// Example on "a=2, b=2", from "a:S(0) b:S(0)" to "a:S(1) b:S(0)": b becomes R, because a will not
// cut dim 0 before it. Then a becomes S(1), and pass 2 makes b S(0).
#include "shardproof/cli/commands/greedy_plan.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

StepKind kind_of_change(const Placement& from, const Placement& to) {
  if (from.is_partial()) {
    if (to.is_replicate()) return StepKind::all_reduce;
    if (to.is_shard()) return StepKind::reduce_scatter;
  }
  if (from.is_shard()) {
    if (to.is_replicate()) return StepKind::all_gather;
    if (to.is_shard()) return StepKind::all_to_all;
  }
  return StepKind::local;
}

// True if the axes before `axis` that cut a dim are the same in both specs.
bool agree_before(const Spec& a, const Spec& b, int axis, int dim) {
  for (int i = 0; i < axis; ++i)
    if (a.placement(i).is_shard(dim) != b.placement(i).is_shard(dim)) return false;
  return true;
}

bool is_cut(const Spec& spec) {
  return std::any_of(spec.placements().begin(), spec.placements().end(),
                     [](const Placement& placement) { return placement.is_shard(); });
}

bool is_plain(const Spec& spec) {
  const auto has_plain_cut = [](const Placement& placement) {
    return !placement.is_shard() || placement == S(placement.shard().dim);
  };
  return std::is_sorted(spec.order().begin(), spec.order().end()) &&
         std::all_of(spec.placements().begin(), spec.placements().end(), has_plain_cut);
}

}  // namespace

PlanStep change_of_axis(const Spec& from, int axis, const Placement& to) {
  const bool is_alone = from.mesh().axis_size(axis) == 1;
  const StepKind kind = is_alone ? StepKind::local : kind_of_change(from.placement(axis), to);
  return {kind, {axis}, from, from.with_placement(axis, to)};
}

std::optional<Plan> greedy_plan(const Spec& from, const Spec& to) {
  if (!(from.mesh() == to.mesh()) || !is_plain(from) || !is_plain(to)) return std::nullopt;
  Plan plan{from, to, {}};
  Spec at = from;
  const auto change = [&](int axis, const Placement& target) {
    if (at.placement(axis) == target) return;
    plan.steps.push_back(change_of_axis(at, axis, target));
    at = plan.steps.back().to;
  };
  for (int axis = from.mesh().axis_count() - 1; is_cut(from) && axis >= 0; --axis) {
    const Placement& target = to.placement(axis);
    const bool agrees = !target.is_shard() || agree_before(at, to, axis, target.shard().dim);
    change(axis, agrees ? target : R());
  }
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis) change(axis, to.placement(axis));
  SP_CHECK(at == to, "the greedy plan ends at {}", to_string(at));
  return plan;
}

}  // namespace shardproof
