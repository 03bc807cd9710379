// Implements the shutdown of coordinator.h: workers receive quit and exit within a time limit.
#include <unistd.h>

#include <algorithm>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/process/child_process.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShutdownPoll{5};
constexpr milliseconds kWorkerExitTimeout{5000};
// Time to close a transport. MPI_Finalize waits for all ranks and for mpirun, on a busy machine for
// long. Killing a worker meanwhile would turn a clean run into a failure.
constexpr milliseconds kTransportCloseTimeout{60000};

}  // namespace

Coordinator::~Coordinator() {
  for (WorkerHandle& member : members_) {
    WireWriter message = message_of(CoordinatorCommand::quit);
    member.pipe->send(message);
    member.pipe->flush();
  }
  try {
    shut_down_workers();
  } catch (const Error&) {  // the run is over: no report can state it
  }
  terminate_workers();
}

// Returns when all have ended, or when the time is over.
void Coordinator::shut_down_workers() {
  const auto has_ended = [](const WorkerHandle& member) {
    return member.monitor->closed() || is_exit_description(member.state);
  };
  const auto leaves = [](const WorkerHandle& member) {
    return member.leaving && (member.state.empty() || member.state.ends_with("exit code 0"));
  };
  WorkerHandle::Clock::time_point since = now();
  while (!members_.empty()) {
    receive_from_monitors();
    const bool ended = std::all_of(members_.begin(), members_.end(), has_ended);
    if (ended && starter_->ended()) return;
    const bool has_time =
        options_.place && !ended && std::all_of(members_.begin(), members_.end(), leaves);
    if (has_time && process_state(::getppid()) == 'T')
      since = now();  // a stopped mpirun does not wait for its children
    if (now() - since > (has_time ? kTransportCloseTimeout : kWorkerExitTimeout)) return;
    listen(kShutdownPoll, [](int, WireReader&) {});
  }
}

}  // namespace shardproof
