// Text of the communication of a program, for `shardproof show --communication`.
#pragma once

#include <string>

#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// Returns the redistributions by line, and the calls and bytes of the ranks that make some. Ranks
// with equal communication are listed once. Times are added if `machine` is not null.
std::string communication_text(const SpmdProgram& program, const CostModel* machine);

}  // namespace shardproof
