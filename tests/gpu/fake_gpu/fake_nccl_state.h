// The state of the fake NCCL: its communicators, and what an open group holds. Internal to it.
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
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_call_group.h"

namespace shardproof {

// The calls of one group on non-blocking communicators. In NCCL a thread of its own puts them into
// their streams; here the polls do, after `polls_left` of them.
struct Launch {
  int polls_left = 0;
  std::vector<std::function<void()>> calls;
};

// A split of a non-blocking communicator: the caller gets the new one when the old one is ready.
struct PendingSplit {
  NcclCommunicator* made = nullptr;  // null: no color
  NcclCommunicator** child = nullptr;
  int polls_left = 0;
};

struct NcclWindowHandle {
  std::byte* start = nullptr;
  size_t bytes = 0;
};

struct NcclCommunicator {
  std::string name;
  std::unique_ptr<fake_gpu::Peers> peers;
  int device = 0;  // device that the thread had selected at its creation
  bool connected = false, aborted = false, blocking = false;
  int error = nccl::kSuccess;  // asynchronous error
  int children = 0;            // splits so far
  std::optional<PendingSplit> pending_split;
  int simulated = 0;               // predicted calls, which it counts as part of the next group
  int64_t issued = 0, ended = 0;   // calls in streams; they run one after another
  std::shared_ptr<Launch> launch;  // calls not in their streams yet
  std::mt19937_64 random;
  std::deque<NcclWindowHandle> windows;
  int signal_waits = 0;  // waits for signals in streams: only a signal ends them
  // Puts and signals received and not waited for, by peer, oldest first.
  std::map<int, std::deque<std::string>> arrived;
};

namespace fake_gpu {

inline constexpr int kInternalError = 3, kRemoteError = 6;

struct State {
  NcclOptions options;
  std::deque<std::unique_ptr<NcclCommunicator>> comms;  // also dead ones, to detect their use
  std::map<int, std::pair<double, DType>> premuls;
  int next_op = nccl::kOps;
  std::string last_error;
};
State& state();

// The calls between ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
  // A call. A one-sided call has a function that puts it into its stream.
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
  int refused = nccl::kSuccess;  // code of the first refused call; then no call is made
  std::vector<Call> calls;
  std::vector<Split> splits;
};
OpenGroup& open_group();  // one for each thread

int fail(int code, const std::string& text);
bool is_valid(NcclComm comm);
// Returns why a call on it is refused; success: it is not.
int refusal(NcclComm comm);
// Adds a call to the open group; without one, the call is a group of its own.
int add_call(OpenGroup::Call call);
// Returns the other living communicators of this process for the same set of ranks. A thread that
// used them one by one would wait for itself.
std::vector<NcclComm> siblings_of(NcclComm comm);
// A text for all other ranks of a communicator.
struct TextToSend {
  NcclCommunicator* comm = nullptr;
  std::string own;
};
// Exchanges texts of equal length between the ranks of each communicator. Returns the texts of all
// ranks, by rank; empty if a rank has exited.
std::vector<std::vector<std::string>> exchange_texts(const std::vector<TextToSend>& to_send);
// Polls the connection of a communicator.
void progress(NcclCommunicator& comm);
// Ends a group of splits. Requires all of the thread's communicators for those ranks in it.
int end_splits(const std::vector<OpenGroup::Split>& splits);
// Returns the code for communicators of one thread that are used outside one group.
int refuse_one_by_one();
// Returns why NCCL_ALGO leaves no algorithm for a call; success: it leaves one.
int refusal_of_algorithm(const NcclCall& call);
void add_communicators(NcclApi& api);
void add_one_sided_calls(NcclApi& api);

}  // namespace fake_gpu
}  // namespace shardproof
