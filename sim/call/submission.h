// Flight: one submission between its issue and its end: a group of calls that start and end
// together. A Party is one call of it. Both keep views of the caller's tensors; buffers are shared
// with the caller. Addresses are stable while the flight lives: the gate points at parties.
#pragma once

#include <memory>
#include <vector>

#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/sim/call/clock.h"

namespace shardproof {

struct Submission;

// One lane's flat part of a tensor.
struct CallBuffer {
  std::shared_ptr<Buffer> buffer;  // null: the lane has no part
  int64_t lane = 0;                // of the buffer
  int64_t offset_bytes = 0, bytes = 0;
};

struct SubmittedCall {
  Call call;
  // What call.input and call.output named at issue. A call of one lane holds views, which are
  // cheaper.
  LocalTensor input, output;
  CallBuffer in, out;
  PerLane<int64_t> number;  // of each lane's call in its group or channel, from 1
  Submission* submission = nullptr;
  int64_t open = 0;        // lanes whose part has not ended
  bool separated = false;  // lanes of the output have copies of their own

  int64_t peer(int64_t lane) const {
    return call.peers.empty() ? call.collective.peer : call.peers[static_cast<size_t>(lane)];
  }
};

struct Submission {
  int32_t cohort = 0;
  Lanes lanes;  // of the cohort
  StreamId stream = 0;
  Ticket ticket = kDone;
  PooledVector<SubmittedCall> parties;
  LaneTimes issued, start, end;
  int64_t open = 0;  // parties that have not ended
  bool started = false, ended = false, failed = false;

  int64_t lane_of(int64_t rank) const { return lanes.size() == 1 ? 0 : lanes.index_of(rank); }
};

}  // namespace shardproof
