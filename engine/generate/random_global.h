// Generates random global programs for random_program.h. Internal to the generator.
#pragma once

#include "shardproof/engine/generate/random_program.h"

namespace shardproof {

// Fills in the text, the sites and the forms of a program. Requires its seed, dtype and
// conditioning. Returns false if the program of this attempt may not be honest: a P value is
// combined with an infinity inside a line. Another attempt draws other lines.
bool draw_global_program(RandomProgram& program, int64_t max_lines, int attempt,
                         const OpRegistry& ops);

}  // namespace shardproof
