// Lifetimes of values: temporaries end after their last use, so that their memory can be used
// again. A value that `keep(x, comm)` names stays allocated until the program has waited for the
// work issued on stream `comm` before the keep.
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

// Moves each Free of a kept value after the first wait that proves this. The wait is one of the
// host, or of the stream that made the value. It waits for the last work of the kept stream that
// was issued before the keep.
// If there is no such wait, the Free moves to the end of the listing. The proof uses program order
// alone, so the peak of memory does not depend on the schedule.
void apply_keep_lifetimes(SpmdProgram& program);

}  // namespace shardproof
