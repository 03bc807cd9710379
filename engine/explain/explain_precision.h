// The cause of an imprecise value, as far as the program shows it.
#pragma once

#include <string>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// The first step on the way to some values of the ranks that rounds to a float dtype narrower than
// `floor`: a call over ranks ("line 2 reduces over dp in bf16"), else a cast or another op ("line 5
// rounds to f16"). Empty where no step does. `floor` is the narrowest dtype that one device
// computes in on its way to the same value.
std::string narrow_step(const SpmdProgram& program, const std::vector<ValueId>& targets,
                        DType floor);

// Instructions of a listing that lead to the targets, in program order.
std::vector<const Instr*> steps_to(const SpmdListing& listing, const std::vector<ValueId>& targets);

}  // namespace shardproof
