// Generates random rank programs with a truth and outputs for random_program.h. Internal to the
// generator.
#pragma once

#include "shardproof/engine/generate/random_program.h"

namespace shardproof {

// Fills in the text, the sites and the forms of a program. Requires that the program has its seed,
// dtype and conditioning. Returns false if no step fits the values of this attempt; another attempt
// draws other values.
bool draw_rank_program(RandomProgram& program, int64_t max_lines, int attempt,
                       const OpRegistry& ops);

}  // namespace shardproof
