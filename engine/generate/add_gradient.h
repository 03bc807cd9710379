// Adds a line with gradients to a generated global program.
#pragma once

#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/engine/generate/forms/program_text.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// Appends "gx0, gx1 = grad(sum(y), [x0, x1])" with a drawn value y and drawn tensors that y depends
// on. Leaves the program as it is if no draw gives a legal line.
void add_gradient(ProgramText& text, Draw& draw, const OpRegistry& ops);

}  // namespace shardproof
