// The redistribution plan of PyTorch's DTensor, which `shardproof plan` compares with its own: it
// changes one axis in each step.
#pragma once

#include <optional>

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

// Returns the step that gives one axis another placement. Requires that the axis may leave its dim:
// no other axis cuts the dim after it.
PlanStep change_of_axis(const Spec& from, int axis, const Placement& to);

// Returns the plan of DTensorRedistributePlanner.generate_greedy_transform_infos (PyTorch 2.15). It
// is defined for specs on one mesh whose cuts are in mesh order, by the chunk rule; nullopt for
// others.
std::optional<Plan> greedy_plan(const Spec& from, const Spec& to);

}  // namespace shardproof
