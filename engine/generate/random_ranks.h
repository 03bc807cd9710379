// Random rank programs with a truth and outputs (random_program.h). Internal to the generator.
#pragma once

#include "shardproof/engine/generate/random_program.h"

namespace shardproof {

// Fills in the text, the sites and the forms of a program whose seed, dtype and conditioning are
// set. Returns false if no step fits the values that this attempt drew; the next one draws anew.
bool draw_rank_program(RandomProgram& program, int64_t max_lines, int attempt,
                       const OpRegistry& ops);

}  // namespace shardproof
