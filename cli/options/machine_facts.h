// The environment of a run: what of this machine may explain its times and its bits.
#pragma once

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Host, system, CPU, cores, tool and, for backends that use them, MPI's version and the variables
// that MPI, NCCL, CUDA and OpenMP read. What is not there is left out.
Environment read_environment(const RunOptions& options);

}  // namespace shardproof
