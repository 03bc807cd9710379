// Releases values without a name after their last use, so that their memory can be used again.
#pragma once

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Adds each value without a name to the `releases` of the last instruction of its listing that uses
// it. O(instructions * log(values)).
void release_temporaries(SpmdProgram& program);

}  // namespace shardproof
