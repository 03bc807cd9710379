// Calls of the stand-in NCCL on their way: what one process has asked of one communicator between
// ncclGroupStart and ncclGroupEnd. Internal to the stand-in.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_peers.h"

namespace shardproof::fake_gpu {

// What peers tell each other before the contents: calls that differ in it do not match.
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
  int peer = 0;  // or root
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::vector<std::string> brought;  // by each rank, of collectives; by the peer

  CallHead head() const;
  int64_t bytes_in() const;  // that one rank brings
  bool sends_to(int rank, int own) const;
  bool hears_from(int rank, int own) const;
};

// Calls of one group on one communicator: they start and end together.
class Bundle {
 public:
  Bundle(Peers& peers, std::vector<NcclCall> calls, ReductionSchedule order);
  void begin();  // contents are read here
  bool heard();  // whether all has come, and gone
  void finish();
  bool stuck() const { return stuck_; }  // a peer brings another call
  bool lost() const { return lost_; }    // a peer that is needed is gone

 private:
  bool hear(int peer);
  void finish(NcclCall& call);

  Peers& peers_;
  std::vector<NcclCall> calls_;
  ReductionSchedule order_;
  std::vector<size_t> heard_;  // of each peer, how many of the calls it takes part in
  bool stuck_ = false, lost_ = false;
};

}  // namespace shardproof::fake_gpu
