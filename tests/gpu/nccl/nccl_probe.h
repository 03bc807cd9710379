// The probe of an NCCL: ranks in processes of this machine that make NCCL reduce and look at the
// bits and at the times. `bits` lays what NCCL adds in its ring and its tree beside our simulation
// of these orders, to the bit, on inexact data; `times` measures exchanges by the device's events
// after a warm-up, beside NCCL's own estimate.
#pragma once

#include "shardproof/backends/nccl/nccl_backend.h"

namespace shardproof {

// Exit code: 0 all is equal; 1 bits differ, or a rank failed; 2 it cannot be done here.
int probe_main(int argc, char** argv, const NcclDependencies& parts);

}  // namespace shardproof
