// Facts about this machine that may explain times and bits of a run.
#pragma once

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Returns host, system, CPU, cores, version of shardproof, and environment variables of MPI, NCCL,
// CUDA and OpenMP. If the run has processes, the version of MPI follows. Unknown facts are omitted.
Environment read_environment(const RunOptions& options);

}  // namespace shardproof
