// Calls of the fake NCCL in progress: what one process has called on one communicator between
// ncclGroupStart and ncclGroupEnd. Internal to the fake NCCL.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_peers.h"

namespace shardproof::fake_gpu {

// The header that peers exchange before the contents: calls with different headers do not match.
struct CallHead {
  int64_t kind = 0, type = 0, op = 0, root = 0, count = 0;
  double factor = 0;
  bool operator==(const CallHead&) const = default;
};

struct NcclCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  DType dtype = DType::f32;
  Reduction reduction;
  size_t count = 0;
  int peer = 0;  // the peer of a message, else the root
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::vector<std::string> inputs;  // input of each rank; for messages, of the peer

  CallHead head() const;
  int64_t bytes_in() const;  // bytes of one rank's input
  bool sends_to(int rank, int own) const;
  bool receives_from(int rank, int own) const;
};

// Calls of one group on one communicator: they start and end together.
class CallGroup {
 public:
  CallGroup(Peers& peers, std::vector<NcclCall> calls, ReductionSchedule order);
  void begin();     // reads the inputs
  bool exchange();  // true if everything was received and sent
  void finish();
  bool is_mismatched() const { return mismatched_; }         // a peer has another call
  bool peer_has_exited() const { return peer_has_exited_; }  // a peer that is needed has ended

 private:
  bool receive_from(int peer);
  void finish(NcclCall& call);

  Peers& peers_;
  std::vector<NcclCall> calls_;
  ReductionSchedule order_;
  std::vector<size_t> received_calls_;  // for each peer, how many of its calls were received
  bool mismatched_ = false, peer_has_exited_ = false;
};

}  // namespace shardproof::fake_gpu
