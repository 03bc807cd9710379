// A probe of NCCL: ranks in processes of this machine make NCCL reduce. `bits` compares NCCL's
// results in ring and tree order, on inexact data, with our simulation of these orders, bit by bit.
// `times` measures exchanges by device events after a warm-up, and prints NCCL's own prediction
// next to them.
#pragma once

#include "shardproof/backends/nccl/nccl_backend.h"

namespace shardproof {

// Returns the exit code: 0 all equal; 1 bits differ, or a rank failed; 2 it cannot run here.
int probe_main(int argc, char** argv, const NcclDependencies& parts);

}  // namespace shardproof
