// Random global programs (random_program.h). Internal to the generator.
#pragma once

#include "shardproof/engine/generate/random_program.h"

namespace shardproof {

// Fills in the text, the sites and the forms of a program whose seed, dtype and conditioning are
// set. Returns false if the draws of this attempt gave a program that is not certain to be honest
// (a P value that meets an infinity inside a line); the next attempt draws anew.
bool draw_global_program(RandomProgram& program, int64_t max_lines, int attempt,
                         const OpRegistry& ops);

}  // namespace shardproof
