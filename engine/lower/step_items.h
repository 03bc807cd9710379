// Makes the calls of a plan's step: one item for each set of lanes whose groups pad to the same
// count.
#pragma once

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns the items of a step on the lanes `on`, which are ranks of its mesh. They share the step
// and have no origin. Requires a step with a call.
std::vector<CallItem> items_of_step(const PlanStep& step, const Lanes& on, ValueId input,
                                    ValueId output);

}  // namespace shardproof
