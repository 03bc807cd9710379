// The end of a crew whose work is done.
#include <unistd.h>

#include <algorithm>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/process/child_process.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTurn{5};
constexpr milliseconds kOwnEnd{5000};
// Who leaves a transport waits for all others and for who has started them: on a machine that is
// busy enough that takes its time, and who is ended meanwhile makes a good run a failed one.
constexpr milliseconds kLeave{60000};

}  // namespace

Coordinator::~Coordinator() {
  for (WorkerHandle& member : members_) {
    WireWriter message;
    message.add(static_cast<int64_t>(CoordinatorCommand::quit));
    member.pipe->send(message);
    member.pipe->flush();
  }
  try {
    shut_down_workers();
  } catch (const Error&) {  // nobody hears of it any more
  }
  terminate_workers();
}

// They end by themselves; who does not is ended.
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
    if (has_time && process_state(::getppid()) == 'T') since = now();  // it hears of no end
    if (now() - since > (has_time ? kLeave : kOwnEnd)) return;
    listen(kTurn, [](int, WireReader&) {});
  }
}

}  // namespace shardproof
