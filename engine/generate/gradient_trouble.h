// The oracle of gradients in generated programs: a gradient that add_gradient.h wrote must agree
// with central differences of the program on one device, in f64.
#pragma once

#include <string>

#include "shardproof/engine/generate/forms/program_text.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns a message if the gradients of the last line disagree with central differences at three
// points near the inputs, along a random direction at each; else "". A program without such a line,
// and one that is not smooth at one of the points, has no trouble. Errors below a thousandth of the
// gradient are not seen.
std::string gradient_trouble(const ProgramText& text, uint64_t seed, const OpRegistry& ops);

}  // namespace shardproof
