// A stand-in for NCCL: its functions over host memory, between processes of this machine, for tests
// on machines without a GPU. Calls become work of a stream and move contents when the stream gets
// there and the peers do; they end late. Reductions have the bits of `reference`. A communicator
// that does not wait has its calls in no stream before it says so. Misuse is answered as NCCL
// answers it: calls that do not match never end, a peer that is gone is an asynchronous error, a
// communicator that was aborted, or has calls on their way, is no argument; what is simulated on
// one that does not wait is made. Splitting one that does not wait is a success at once, and the
// new one is there when the old one says that it is ready. What a thread with several communicators
// asks of them one by one, so that NCCL would wait for what comes next or, in an abort, for what
// only another one's can end, what it asks while another GPU is its own, and what has no algorithm
// by NCCL_ALGO is refused.
//
// Like NCCL's, its state belongs to the process.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/backends/nccl/nccl_backend.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof::fake_gpu {

// Puts work into a stream, in whose turn it is done when `until` is true; only then it may touch
// device memory.
using Enqueue =
    std::function<void(void* stream, std::function<bool()> until, std::function<bool()> work)>;

struct NcclOptions {
  int version = 22809;
  std::string algorithms;        // NCCL_ALGO
  ReductionSchedule order;       // in which it adds
  bool ranks_are_nodes = false;  // of its tree: each rank is a machine of its own
  // A file for a line on each group: who makes which calls in it, and which of a thread's
  // communicators makes which one where it has several; empty: none.
  std::string trace;
  int breaks_at = 0;  // call of the last rank of a communicator that is an internal error; 0: none
  int dies = 0;       // so many milliseconds later its process is killed; 0: it lives on
  bool symmetric = true;  // peers reach each other's memory
  bool no_room = false;   // here, for windows
  // Ranks whose part of a window, whose signal, fails; -1: none.
  int no_window = -1, no_signal = -1;
  std::optional<bool> blocking;  // NCCL_COMM_BLOCKING: whatever a communicator is asked to be
  // GPUs of one process follow each other's addresses, which their pools do not allow.
  bool reads_directly = false;
  bool launches_block = false;  // until what was launched has ended
  Enqueue enqueue;
  CudaApi memory;  // where ncclMemAlloc takes it
};
NcclApi nccl_api(const NcclOptions& options);
// What NCCL_ALGO names for a function: "Ring" of "Ring;allreduce:Tree" for all but allreduce.
std::string algorithms_for(const std::string& function, const std::string& all);

// The nccl backend's parts on these GPUs. Which NCCL, and how it adds, the environment says:
// FAKE_GPU_NCCL is its version, FAKE_GPU_TRACE the file of its groups, FAKE_GPU_BREAKS the call at
// which its network fails, FAKE_GPU_DIES when the process does after that; FAKE_GPU_NO_ROOM,
// FAKE_GPU_NO_WINDOW and FAKE_GPU_NO_SIGNAL are ranks that fail where windows are opened;
// NCCL_ALGO, NCCL_COMM_BLOCKING, NCCL_MAX_CTAS, NCCL_P2P_DIRECT_DISABLE and CUDA_LAUNCH_BLOCKING
// are NCCL's own and CUDA's.
NcclDependencies nccl_parts(const CudaApi& cuda);

}  // namespace shardproof::fake_gpu
