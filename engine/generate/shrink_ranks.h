// Makes rank programs smaller, for fuzz.h. A step is removed from the ranks and from the truth
// together. If only one of them lacked it, the program would fail for another reason.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {

// Returns the names that the lines bind, from the last, and then the tensors, from the last.
std::vector<std::string> names_of_ranks(const ProgramText& text);

// Returns the program without the blocks of both listings that name a value or a name that these
// blocks bind. Outputs that no line binds then, and tensors that no line reads, are removed too. If
// a line computes several gradients, only those by a removed tensor are removed.
ProgramText without_value(const ProgramText& text, const std::string& name);

// Returns the program with gradients of sum(name), in both listings; the same without gradients.
ProgramText with_gradients_of(ProgramText text, const std::string& name);

}  // namespace shardproof
