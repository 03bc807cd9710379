// Issues one exchange on device memory as calls of NCCL. Internal to the nccl backend.
#pragma once

#include "shardproof/backends/nccl/nccl_session.h"
#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

// True for a send and a receive, which use the communicator of all ranks.
bool is_message(const Exchange& exchange);
// Returns the communicator of an exchange: of its team; of all ranks for messages.
NcclComm comm_of(const NcclSession& session, const Exchange& exchange);
// The rank, within the team, of the GPU whose share is issued. The GPU must be the thread's
// device. A barrier needs space for one number in `recv`. Returns NCCL's code; errors may follow
// later.
struct NcclPlace {
  NcclComm comm = nullptr;
  NcclStream stream = nullptr;
  size_t self = 0;
};
int issue_exchange(const NcclApi& api, const Exchange& exchange, const NcclPlace& place);
// True if it is one collective of NCCL, whose time NCCL can predict.
bool is_one_collective(const Exchange& exchange);

}  // namespace shardproof
