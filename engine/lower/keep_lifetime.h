// Lifetimes of `keep(x, comm)`: x stays allocated until the program has waited for the work issued
// on stream `comm` before the keep.
#pragma once

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Moves each Free of a kept value after the first wait that proves this. The wait is one of the
// host, or of the stream that made the value. It waits for the last work of the kept stream that
// was issued before the keep.
// If there is no such wait, the Free moves to the end of the listing. The proof uses program order
// alone, so the peak of memory does not depend on the schedule.
void apply_keep_lifetimes(SpmdProgram& program);

}  // namespace shardproof
