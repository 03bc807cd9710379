// Adds `releases` to instructions: a value without a name ends after its last use in its listing.
#pragma once

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

void release_temporaries(SpmdProgram& program);

}  // namespace shardproof
