// A fake NCCL: its functions over host memory, between processes of this machine, for tests without
// a GPU. Calls become work of a stream and move contents when the stream and the peers reach them;
// calls end as late as NCCL allows. Reductions have the bits of `reference`.
//
// Misuse has NCCL's consequences:
//
// | misuse                                                   | consequence                       |
// |----------------------------------------------------------|-----------------------------------|
// | calls that do not match                                  | never end                         |
// | a peer has ended                                         | asynchronous error                |
// | use of an aborted communicator, or of one not ready      | invalid argument                  |
// | simulation on a non-blocking communicator                | the call is made                  |
// | several communicators of a thread used one by one        | refused: NCCL would wait for ever |
// | a call while another GPU is selected                     | refused                           |
// | a call without an algorithm by NCCL_ALGO                 | refused                           |
//
// A split of a non-blocking communicator returns success at once; the new one is valid when the old
// one is ready. State belongs to the process, as NCCL's.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/backends/nccl/nccl_backend.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof::fake_gpu {

// Puts work into a stream. It runs in turn, once `until` is true, and only then may touch device
// memory.
using Enqueue =
    std::function<void(void* stream, std::function<bool()> until, std::function<bool()> work)>;

struct NcclOptions {
  int version = 22809;
  std::string algorithms;        // NCCL_ALGO
  ReductionSchedule order;       // order of additions
  bool ranks_are_nodes = false;  // for trees: each rank is a machine of its own
  // A file for one line on each group: which calls it has, and by which of a thread's
  // communicators. Empty: none.
  std::string trace;
  int failing_call = 0;   // number of the last rank's call that is an internal error; 0: none
  int kill_after_ms = 0;  // from that error to the end of its process; 0: it is not killed
  bool symmetric = true;  // peers reach each other's memory
  bool no_window_memory = false;  // no memory for windows in this process
  // Ranks whose step of opening a window, or whose first signal, fails; -1: none.
  int no_window = -1, no_signal = -1;
  std::optional<bool> blocking;  // NCCL_COMM_BLOCKING: overrides the option of communicators
  // GPUs of one process use each other's addresses, which memory of pools does not allow.
  bool reads_directly = false;
  bool launches_block = false;  // a launch waits until its kernel has ended
  Enqueue enqueue;
  CudaApi memory;  // memory for ncclMemAlloc
};
NcclApi nccl_api(const NcclOptions& options);
// Returns the algorithms that NCCL_ALGO names for a function: "Ring" in "Ring;allreduce:Tree" for
// all but allreduce.
std::string algorithms_for(const std::string& function, const std::string& all);

// Returns the nccl backend's parts on these GPUs, set by the environment:
//
// | variable                           | meaning                                               |
// |------------------------------------|-------------------------------------------------------|
// | FAKE_GPU_NCCL                      | version of NCCL, and with it its orders               |
// | FAKE_GPU_TRACE                     | file for one line on each group                       |
// | FAKE_GPU_FAILING_CALL              | number of the last rank's call at which NCCL fails    |
// | FAKE_GPU_KILL_AFTER_MS             | milliseconds from then until the process is killed    |
// | FAKE_GPU_NO_WINDOW_MEMORY          | process without memory for windows                    |
// | FAKE_GPU_NO_WINDOW, _NO_SIGNAL     | rank that cannot open a window, or send a signal      |
//
// NCCL_ALGO, NCCL_COMM_BLOCKING, NCCL_MAX_CTAS, NCCL_P2P_DIRECT_DISABLE and CUDA_LAUNCH_BLOCKING
// have the meaning that NCCL and CUDA give them.
NcclDependencies nccl_parts(const CudaApi& cuda);

}  // namespace shardproof::fake_gpu
