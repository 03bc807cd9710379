// Releases values without a name after their last use, so that their memory can be used again.
#pragma once

#include <set>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Adds each value without a name to the `releases` of the last instruction of its listing that uses
// it. O(instructions * log(values)).
void release_temporaries(SpmdProgram& program);

// Moves each Free after the last instruction that uses the value. A gradient reads values whose
// names were bound again since. Adds a Free after the last use of each value of `recomputed`. Then
// releases temporaries.
void free_after_last_use(SpmdProgram& program, const std::set<ValueId>& recomputed);

}  // namespace shardproof
