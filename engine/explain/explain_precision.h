// Finds the cause of an imprecise value in the program: a step that rounds to a narrow dtype.
#pragma once

#include <string>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A step that rounds to a float dtype narrower than one device computes in.
struct NarrowStep {
  ValueId value = kNoValue;  // what it makes
  DType dtype = DType::f32;
  bool is_call = false;  // reduces over ranks
  std::string text;      // "line 2 reduces over dp in bf16", "line 5 rounds to f16"
};

// Returns the steps towards the targets that round to a float dtype narrower than `floor`, in
// program order. `floor` is the narrowest dtype that one device computes in on the way to the same
// value.
std::vector<NarrowStep> narrow_steps(const SpmdProgram& program,
                                     const std::vector<ValueId>& targets, DType floor);

// Returns the text of the call on the way that adds the most values over ranks and rounds after
// each. Example: "line 2 adds 2,048 values over dp in bf16 and rounds after each". Empty if this
// number of roundings does not explain an error of `error` times the largest element.
std::string long_sum(const SpmdProgram& program, const std::vector<ValueId>& targets, double error);

// Returns the instructions that lead to the targets, in program order. A step of other ranks comes
// before the call that passes its result on. Calls of other listings with the same kind, group and
// dtype count as those from which a call receives.
std::vector<const Instr*> steps_to(const SpmdProgram& program, const std::vector<ValueId>& targets);

}  // namespace shardproof
