// The submissions of a host: communication calls, local work, allocations, and the tickets it
// receives for them. The execution context (backends/api/execution_context.h) accepts them, the
// call matcher (call_matcher.h) matches calls.
//
// A Call names its tensors by pointer. Views are copied when the call is issued, contents are read
// when it starts, and the buffers of the output are filled when it ends.
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

// The place of a call in the user's program, for findings and records.
struct CallSite {
  int line = 0;
  std::string_view text;      // source line; must outlive the run
  std::string_view instance;  // "i=2"
};

// A communication call without the ranks that make it and their tensors.
struct CallTerms {
  Collective collective;
  std::vector<int64_t> peers;  // by lane; empty: collective.peer for all
  std::vector<std::vector<int64_t>> send_counts,
      recv_counts;           // by lane, elements (all_to_all_v)
  int64_t row_elements = 0;  // in these counts, for findings; 0: counts are of elements
  CallSite site;
};

// One communication call by some lanes of the cohort. Inputs and outputs are flat dense tensors, as
// collective.h defines. `output` names buffers without contents; lanes without output have no
// block.
struct Call : CallTerms {
  Lanes lanes;
  const LocalTensor* input = nullptr;  // null for barrier, recv, signal, wait_signal
  LocalTensor* output = nullptr;       // slots and bytes are set when the call ends
};

// Local work. The execution context runs `body` when its turn in the stream comes; at once if the
// stream is idle. The body only reads and writes memory.
struct Work {
  Lanes lanes;
  StreamId stream = kMainStream;
  double flops = 0, bytes = 0;  // for each lane, for the clock
  std::function<void()> body;
  CallSite site;
  std::string_view name;  // op, for records
  // The buffers that `body` reads and writes. Only set for worlds that repeat their work.
  std::vector<std::shared_ptr<Buffer>> buffers;
};

struct Allocation {
  Lanes lanes;
  int64_t bytes = 0;  // for each lane; 0 is allowed
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
