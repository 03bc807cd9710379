// Sharing of GPUs by NCCL ranks if there are fewer GPUs than ranks, and the environment variables
// that the processes need for it.
#pragma once

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/process/child_process.h"

namespace shardproof {

enum class GpuSharing : uint8_t {
  none,      // one rank on each GPU
  as_hosts,  // each rank claims to be a machine of its own (NCCL_HOSTID) and uses sockets
  by_nccl,   // NCCL 2.30.3 and newer supports several ranks on one GPU
};
GpuSharing gpu_sharing(const WorkerPoolOptions& options, int nccl_version);

// Returns the variables of one process, for the sharing of GPUs and the order of additions.
Environment nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing, int process);
// Returns variables that the user may override: sockets over loopback, if all processes are known
// to be on one machine.
Environment nccl_preferences(const WorkerPoolOptions& options, GpuSharing sharing);
// Sets the variables of both functions above in this process. Call it before NCCL is used.
void set_nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing);

// Throws Error(unsupported) if NCCL of that version cannot add in this order.
void check_order(const ReductionSchedule& order, int nccl_version);

// Returns a remark for reports about the times of such a run; empty: none.
std::string sharing_note(const WorkerPoolOptions& options, GpuSharing sharing);

// Returns the index, among the visible GPUs, of this process's first one. If only as many are
// visible as it needs, that is 0. Throws Error(unsupported) if there are too few.
int first_own_gpu(const WorkerPoolOptions& options, int gpus);

// Throws Error(unsupported) if this machine has too few GPUs for the run.
void check_gpu_count(const WorkerPoolOptions& options, int gpus);

}  // namespace shardproof
