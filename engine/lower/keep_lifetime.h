// `keep(x, comm)`: x's memory outlives its last name until `comm` is past the keep.
#pragma once

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Moves each end of a kept value to the first wait that proves it: one of the stream that made the
// value, or of the host, for work of the kept stream that was issued before the keep. Without such
// a wait the memory is held to the end of the listing. What program order proves does not depend on
// the schedule, so neither does a peak.
void apply_keep_lifetimes(SpmdProgram& program);

}  // namespace shardproof
