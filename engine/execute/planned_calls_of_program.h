// Counts the calls that each rank of a program makes if nothing blocks it, for the explanation of a
// deadlock (sim/analysis/planned_calls.h). O(calls of all ranks).
#pragma once

#include <string>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/sim/analysis/planned_calls.h"

namespace shardproof {

// Returns the planned calls of all ranks, without those that a fault skips. Throws Error(bad_input)
// if a text in `faults` is not a fault.
PlannedCalls plan_calls(const SpmdProgram& program, const std::vector<std::string>& faults);

}  // namespace shardproof
