// Counts the calls that each rank of a program makes if nothing holds it up, for the explanation of
// a standstill (sim/analysis/planned_calls.h). O(calls of all ranks).
#pragma once

#include <string>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/sim/analysis/planned_calls.h"

namespace shardproof {

// `faults`: a call that one of them skips is not counted. Throws Error for text that is no fault.
PlannedCalls plan_calls(const SpmdProgram& program, const std::vector<std::string>& faults);

}  // namespace shardproof
