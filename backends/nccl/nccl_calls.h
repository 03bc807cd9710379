// One exchange on device memory as calls of NCCL. Internal to the nccl backend.
#pragma once

#include "shardproof/backends/nccl/nccl_session.h"
#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

// The communicator of its team; messages go over the world.
NcclComm comm_of(const NcclSession& session, const Exchange& exchange);
// `self`: index in the team of the GPU whose part it is, which is the thread's device. Gives NCCL's
// code; what it says later is to be asked for. A barrier needs room for a number in `recv`.
struct NcclPlace {
  NcclComm comm = nullptr;
  NcclStream stream = nullptr;
  size_t self = 0;
};
int issue_exchange(const NcclApi& api, const Exchange& exchange, const NcclPlace& place);
// Whether it is one collective of NCCL, whose time NCCL can estimate.
bool is_one_collective(const Exchange& exchange);

}  // namespace shardproof
