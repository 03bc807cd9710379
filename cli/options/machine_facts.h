// Facts about this machine that may explain times and bits of a run.
#pragma once

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Returns host, system, CPU, cores, version of shardproof, for a run in processes the version of
// MPI, and the environment variables of MPI, NCCL, CUDA and OpenMP. Unknown facts are omitted.
Environment read_environment(const RunOptions& options);

}  // namespace shardproof
