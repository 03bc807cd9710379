// How ranks of NCCL share GPUs when there are fewer GPUs than ranks, and what the processes'
// environment has to say for it.
#pragma once

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/process/child_process.h"

namespace shardproof {

enum class GpuSharing : uint8_t {
  none,      // one rank each
  as_hosts,  // each rank says that it is a machine of its own: sockets
  by_nccl,   // NCCL 2.30.3 and newer takes several ranks on one GPU
};
GpuSharing gpu_sharing(const WorkerPoolOptions& options, int nccl_version);

// Of one process: how GPUs are shared or go together, and the order in which it is to add.
Environment nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing, int process);
// The same of what holds only where the user has not said otherwise: sockets over loopback, for
// processes that are known to be on one machine.
Environment nccl_preferences(const WorkerPoolOptions& options, GpuSharing sharing);
// Both, in this process, before NCCL is asked for anything.
void set_nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing);

// Throws Error(unsupported) when NCCL of that version adds otherwise than this order says.
void check_order(const ReductionSchedule& order, int nccl_version);

// What a report has to say about times of such a run; empty: nothing.
std::string sharing_note(const WorkerPoolOptions& options, GpuSharing sharing);

// Of those that this process sees, the first of its own. Where whoever started it shows it but as
// many as it is to have, these are its own. Throws Error(unsupported) when there are too few.
int first_own_gpu(const WorkerPoolOptions& options, int gpus);

// Throws Error(unsupported) when the machine has too few.
void check_gpu_count(const WorkerPoolOptions& options, int gpus);

}  // namespace shardproof
