// Submission: a group of calls that start and end together, from its issue to its end.
// SubmittedCall: one of its calls. Both keep views of the caller's tensors and share their buffers.
// The addresses of calls are stable as long as the submission exists: the call matcher points at
// them.
#pragma once

#include <memory>

#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/sim/call/ticket_table.h"

namespace shardproof {

struct Submission;

// The part of one lane in a tensor, as bytes of its copy in a buffer.
struct CallBuffer {
  std::shared_ptr<Buffer> buffer;  // null: the lane has no part
  int64_t offset_bytes = 0, bytes = 0;
};

// Members are in order of use. The end of a call of one lane reads the first two cache lines only,
// and no call of one lane reads the last line.
struct SubmittedCall {
  Submission* submission = nullptr;
  int32_t open = 0;        // lanes that have not ended
  bool one_lane = false;   // the call has one lane, whose parts are `in` and `out`
  bool separated = false;  // each lane of the output has a copy of its own
  CallBuffer in, out;
  Lanes lanes;
  std::shared_ptr<const CallTerms> terms;
  PerLane<int64_t> number;  // by lane: number of the call in its group or channel, from 1
  // Copies of the tensors that the call named at issue, if there are several lanes.
  LocalTensor input, output;

  int64_t peer(int64_t lane) const {
    return terms->peers.empty() ? terms->collective.peer : terms->peers[static_cast<size_t>(lane)];
  }
};

// One cache line holds the members that a call reads in a world without a clock.
struct alignas(64) Submission {
  int32_t cohort = 0;
  StreamId stream = 0;
  Ticket ticket = kDone;
  int32_t open = 0;  // calls that have not ended
  bool started = false, ended = false, failed = false;
  bool may_pass = false;  // on a stream whose items may pass each other (stream.h)
  PooledVector<SubmittedCall> calls;
  const Lanes* lanes = nullptr;  // all lanes of the cohort, which outlive the submission
  LaneTimes issued, start, end;  // set in a world with a clock
  // The time of all sends, and of all recvs, of a lane. Set in a world with a clock if there are
  // several calls.
  LaneTimes sending, receiving;
  Lanes callers;  // the lanes of all calls; set if it may pass

  int64_t lane_of(int64_t rank) const { return lanes->size() == 1 ? 0 : lanes->index_of(rank); }
};

}  // namespace shardproof
