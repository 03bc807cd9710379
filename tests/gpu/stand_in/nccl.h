// A stand-in for NCCL: its functions over host memory, between processes of this machine, for tests
// on machines without a GPU. Calls become work of a stream and move contents when the stream gets
// there and the peers do; they end late. Reductions have the bits of `reference`. Misuse is
// answered as NCCL answers it: calls that do not match never end, a peer that is gone is an
// asynchronous error, a communicator that was aborted is no argument any more.
//
// Like NCCL's, its state belongs to the process.
#pragma once

#include <functional>

#include "shardproof/backends/nccl.h"
#include "shardproof/localtensor/collective.h"

namespace shardproof::stand_in {

// Puts work into a stream: it is tried, in the stream's turn, until it says that it is done.
using Enqueue = std::function<void(void* stream, std::function<bool()> attempt)>;

struct NcclOptions {
  int version = 22809;
  ReductionSchedule order;       // in which it adds
  bool ranks_are_nodes = false;  // of its tree: each rank is a machine of its own
  Enqueue enqueue;
};
NcclApi nccl_api(const NcclOptions& options);

// The nccl backend's parts on these GPUs. Which NCCL, and how it adds, the environment says:
// STAND_IN_NCCL is its version, NCCL_ALGO and NCCL_MAX_CTAS are NCCL's own.
NcclParts nccl_parts(const CudaApi& cuda);

}  // namespace shardproof::stand_in
