// The oracle of gradients in generated programs: a gradient that add_gradient.h wrote must agree
// with central differences of the program on one device, in f64.
#pragma once

#include <string>

#include "shardproof/engine/generate/forms/program_text.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// True if the value is computed from a value that `stop` made. Differences do not stop there.
bool depends_on_stop(const GlobalProgram& program, ValueId value);

// Returns a message if the gradients of the last line of the program, or of the truth, disagree
// with central differences; else "". They are compared at three points near the inputs, along a
// random direction at each. Returns "" if the program has no such line. Also returns "" if the
// program is not smooth at one of the points, or if its sum depends on a stopped value. Errors
// below a thousandth of the gradient are not detected. Gradients for which f64 has no step that is
// small enough are not decided.
std::string numerical_gradient_error(const ProgramText& text, uint64_t seed, const OpRegistry& ops);

}  // namespace shardproof
