// Adds a line with gradients to a generated global program.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/engine/generate/forms/program_text.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

inline constexpr size_t kMostGradientInputs = 3;  // of one grad

// Draws up to `most` tensors on which the value of the program, or of the truth, depends.
std::vector<std::string> draw_gradient_inputs(const ProgramText& text, const std::string& value,
                                              size_t most, Draw& draw, const OpRegistry& ops);

// Appends "gx0, gx1 = grad(sum(y), [x0, x1])" with a drawn value y and drawn tensors that y depends
// on. Leaves the program as it is if no draw gives a legal line.
void add_gradient(ProgramText& text, Draw& draw, const OpRegistry& ops);

}  // namespace shardproof
