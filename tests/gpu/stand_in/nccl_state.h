// What the stand-in NCCL knows: its communicators, and what a group holds so far. Internal to the
// stand-in.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shardproof/tests/gpu/stand_in/nccl.h"
#include "shardproof/tests/gpu/stand_in/nccl_calls.h"

namespace shardproof {

// The calls of one group on communicators that do not wait: NCCL brings them into their streams by
// a thread of its own, here by whoever asks.
struct Launch {
  int looks_left = 0;
  std::vector<std::function<void()>> calls;
};

struct NcclWindowHandle {
  std::byte* start = nullptr;
  size_t bytes = 0;
};

struct NcclCommunicator {
  std::string name;
  std::unique_ptr<stand_in::Peers> peers;
  bool connected = false, aborted = false, blocking = false;
  int error = nccl::kSuccess;      // asynchronous
  int children = 0;                // splits so far
  int64_t issued = 0, ended = 0;   // calls in streams, which go one after another
  std::shared_ptr<Launch> launch;  // under way
  std::mt19937_64 random;
  std::deque<NcclWindowHandle> windows;
  // What peers have put and signalled here, and nobody has waited for: the first ones of each.
  std::map<int, std::deque<std::string>> landed;
};

namespace stand_in {

struct State {
  NcclOptions options;
  std::deque<std::unique_ptr<NcclCommunicator>> comms;  // the dead ones too: their use is told
  std::map<int, std::pair<double, DType>> premuls;
  int next_op = nccl::kOps;
  int depth = 0;
  // A call between ncclGroupStart and ncclGroupEnd; one-sided: what brings it into its stream.
  struct Pending {
    NcclComm comm;
    NcclStream stream;
    NcclCall call;
    std::function<void()> one_sided;
  };
  std::vector<Pending> pending;
  std::string last_error;
};
State& state();

int fail(int code, const std::string& text);
bool known(NcclComm comm);
// Why a call on it is refused; success: it is not.
int refusal(NcclComm comm);
// Of one more call; ends the group that this call is when there is none.
int add_call(State::Pending pending);
// Says something of the same length to all others of the communicator and hears theirs, in their
// order; empty when one is gone.
std::vector<std::string> tell_all(NcclCommunicator& comm, const std::string& own);
void add_one_sided_calls(NcclApi& api);

}  // namespace stand_in
}  // namespace shardproof
