// Smaller rank programs for fuzz.h: a step is removed from the ranks and from the truth together,
// because a line that one of both lacks would be a failure of its own.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {

// Returns the names that the lines bind, from the last, and then the tensors, from the last.
std::vector<std::string> names_of_ranks(const ProgramText& text);

// Returns the program without the blocks that name a value or what they bind, in both listings;
// without outputs that are not bound then, and without tensors that no line reads. If a line
// computes several gradients, only those by a removed tensor are removed.
ProgramText without_value(const ProgramText& text, const std::string& name);

// Returns the program with gradients of sum(name), in both listings; the same without gradients.
ProgramText with_gradients_of(ProgramText text, const std::string& name);

}  // namespace shardproof
