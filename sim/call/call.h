// What a host hands to the physics: communication calls, local work, allocations, and the tickets
// it gets for them. The door (backends/api/execution_context.h) takes them, the gate matches them.
//
// A Call names its tensors by pointer: the views are copied when the call is issued, the contents
// are read when it starts, and the buffers of the output are filled when it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

using Ticket = int64_t;
inline constexpr Ticket kDone = 0;
using StreamId = int32_t;
inline constexpr StreamId kMainStream = 0;

// Where in the user's program a call stands: for verdicts and records.
struct CallSite {
  int line = 0;
  std::string_view text;      // source line; outlives the run
  std::string_view instance;  // "i=2"
};

// One communication call of some lanes of the cohort. Inputs and outputs are flat dense tensors as
// in collective.h; `output` has buffers whose contents the door provides (absent where a lane gets
// nothing).
struct Call {
  Collective collective;
  Lanes lanes;
  std::vector<int64_t> peers;  // per lane; empty: collective.peer for all
  std::vector<std::vector<int64_t>> send_counts,
      recv_counts;                     // per lane, elements (all_to_all_v)
  const LocalTensor* input = nullptr;  // null: barrier, recv, signal, ... Read when the call starts
  LocalTensor* output = nullptr;       // buffers given; slots and bytes are set when the call ends
  int64_t whole_bytes = 0;             // S for bytes_sent; 0: taken from counts
  CallSite site;
};

// Local work: the door runs `body` when its stream gets there (now, when idle). The body only
// touches memory.
struct Work {
  Lanes lanes;
  StreamId stream = kMainStream;
  double flops = 0, bytes = 0;  // of one lane, for the clock
  std::function<void()> body;
  CallSite site;
  std::string_view name;  // op, for records
};

struct Allocation {
  Lanes lanes;
  int64_t bytes = 0;  // of one lane; 0 is legal
  int category = 0;
  StreamId stream = kMainStream;
};

enum class TicketState : uint8_t { pending, done, failed };
enum class CohortState : uint8_t {
  running,
  hung,
  dead
};  // hung, dead: an injected fault stopped this host

}  // namespace shardproof
