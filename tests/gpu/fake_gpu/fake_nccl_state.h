// What the stand-in NCCL knows: its communicators, and what a group holds so far. Internal to the
// stand-in.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_calls.h"

namespace shardproof {

// The calls of one group on communicators that do not wait: NCCL brings them into their streams by
// a thread of its own, here by whoever asks.
struct Launch {
  int looks_left = 0;
  std::vector<std::function<void()>> calls;
};

// Who split a communicator gets the new one when the old one says that it is ready again, and is
// told nothing but success until then.
struct Splitting {
  NcclCommunicator* made = nullptr;  // null: no color
  NcclCommunicator** child = nullptr;
  int looks_left = 0;
};

struct NcclWindowHandle {
  std::byte* start = nullptr;
  size_t bytes = 0;
};

struct NcclCommunicator {
  std::string name;
  std::unique_ptr<fake_gpu::Peers> peers;
  int device = 0;  // the thread's when it was made
  bool connected = false, aborted = false, blocking = false;
  int error = nccl::kSuccess;  // asynchronous
  int children = 0;            // splits so far
  std::optional<Splitting> splitting;
  int simulated = 0;               // calls that it counts among those of the next group
  int64_t issued = 0, ended = 0;   // calls in streams, which go one after another
  std::shared_ptr<Launch> launch;  // under way
  std::mt19937_64 random;
  std::deque<NcclWindowHandle> windows;
  int waits = 0;  // for signals, in streams: nothing but a signal ends them
  // What peers have put and signalled here, and nobody has waited for: the first ones of each.
  std::map<int, std::deque<std::string>> landed;
};

namespace fake_gpu {

inline constexpr int kInternalError = 3, kRemoteError = 6;

struct State {
  NcclOptions options;
  std::deque<std::unique_ptr<NcclCommunicator>> comms;  // the dead ones too: their use is told
  std::map<int, std::pair<double, DType>> premuls;
  int next_op = nccl::kOps;
  std::string last_error;
};
State& state();

// What lies between ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
  // A call; one-sided: what brings it into its stream.
  struct Call {
    NcclComm comm;
    NcclStream stream;
    NcclCall call;
    std::function<void()> one_sided;
  };
  struct Split {
    NcclComm parent;
    int color, key;
    NcclComm* child;
    bool blocking;
  };
  int depth = 0;
  int refused = nccl::kSuccess;  // why its first call was that was; then none is made
  std::vector<Call> calls;
  std::vector<Split> splits;
};
OpenGroup& open_group();  // of this thread

int fail(int code, const std::string& text);
bool known(NcclComm comm);
// Why a call on it is refused; success: it is not.
int refusal(NcclComm comm);
// Of one more call; ends the group that this call is when there is none.
int add_call(OpenGroup::Call call);
// Other living communicators of this process for the same set of ranks: a thread that has several
// and asks them one by one would wait for itself.
std::vector<NcclComm> siblings_of(NcclComm comm);
// Each says something of the same length to all others of its communicator and hears theirs, in
// their order; empty when one is gone.
struct Saying {
  NcclCommunicator* comm = nullptr;
  std::string own;
};
std::vector<std::vector<std::string>> tell_all(const std::vector<Saying>& sayings);
// Towards being connected.
void progress(NcclCommunicator& comm);
// Of a group that splits: all of the thread's communicators for those ranks are to be in it.
int end_splits(const std::vector<OpenGroup::Split>& splits);
int fail_alone();
// Why NCCL_ALGO leaves a call without an algorithm; success: it does not.
int refusal_of_algorithm(const NcclCall& call);
void add_communicators(NcclApi& api);
void add_one_sided_calls(NcclApi& api);

}  // namespace fake_gpu
}  // namespace shardproof
