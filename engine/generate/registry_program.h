// Programs over all ops of a registry: each line calls an op on one of its samples. The mesh and
// the placements of the inputs are random. Generated programs of random_program.h use the ops that
// its forms name; these use every op, composite ones and those of the user included.
#pragma once

#include "shardproof/engine/generate/forms/program_text.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns a global program of 1 to 4 calls, each with inputs of its own. Results are redistributed
// at random. Floats of ops with a kernel are f64. `about` names the ops.
ProgramText registry_program(uint64_t seed, const OpRegistry& ops);

}  // namespace shardproof
