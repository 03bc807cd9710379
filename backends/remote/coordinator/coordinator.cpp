// Implements the cases and the messages of coordinator.h.
//
// Other sources: coordinator_startup.cpp starts and connects the workers, coordinator_loss.cpp
// finds lost ones, coordinator_shutdown.cpp ends them. coordinator_world.h runs one program on
// them.
#include "shardproof/backends/remote/coordinator/coordinator.h"

#include <poll.h>

#include <algorithm>

namespace shardproof {
namespace {

using Clock = WorkerHandle::Clock;
using std::chrono::milliseconds;

constexpr int kMessagesPerTurn = 256;  // messages of one worker before the next worker's turn

}  // namespace

std::vector<std::vector<int>> Coordinator::register_new_teams(std::vector<std::vector<int>> teams) {
  if (invitation_.empty()) return {};
  std::erase_if(teams, [this](const std::vector<int>& team) {
    const size_t all = static_cast<size_t>(processes() * endpoints_each());
    return team.size() < 2 || team.size() == all || !teams_.insert(team).second;
  });
  return teams;
}

void Coordinator::begin(int64_t index) {
  gather();
  WireWriter message = message_of(CoordinatorCommand::begin_case);
  message.add(index);
  for (WorkerHandle& member : members_) {
    member.case_done = false;
    member.pipe->send(message);
    member.pipe->flush();
  }
}

// If a worker cannot leave the case in time, all are ended: the next case starts new ones.
void Coordinator::end() {
  if (!transport_errors().empty()) return terminate_workers();
  for (WorkerHandle& member : members_) {
    member.pipe->send(message_of(CoordinatorCommand::leave_case));
    member.pipe->flush();
  }
  const auto left = [&] {
    return std::all_of(members_.begin(), members_.end(),
                       [](const WorkerHandle& member) { return member.case_done; });
  };
  const Clock::time_point since = now();
  while (!left()) {
    listen(kListenTime, [](int, WireReader&) {});
    if (find_lost_worker() || timed_out(since)) return terminate_workers();
  }
}

std::optional<int64_t> Coordinator::next() {
  SP_UNREACHABLE("only workers wait for the next case");
}
void Coordinator::done(const std::string&) {
  SP_UNREACHABLE("the coordinator runs no case for others");
}

void Coordinator::send(int process, const WireWriter& message) {
  members_[static_cast<size_t>(process)].pipe->send(message);
}

void Coordinator::handle_one(size_t process, std::string_view message,
                             const MessageHandler& handle_message) {
  WorkerHandle& member = members_[process];
  WireReader in(message);
  WireReader whole = in;
  const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
  if (kind == WorkerMessage::heartbeat) {
    member.activity = static_cast<HeartbeatActivity>(in.number());
    member.last_heartbeat.begun = in.number();
    member.last_heartbeat.done = in.number();
    member.last_heartbeat.line = static_cast<int32_t>(in.number());
    ++member.heartbeats;
  } else if (kind == WorkerMessage::transport_error) {
    member.transport_error = in.text();
    member.error_since = now();
    over_ = transport_errors().back();
  } else if (kind == WorkerMessage::leaving) {
    member.leaving = true;
  } else if (kind == WorkerMessage::case_done) {
    member.case_done = true;
    handle_message(static_cast<int>(process), whole);
  } else {
    handle_message(static_cast<int>(process), whole);
  }
}

// Handles at most 256 messages of each worker, so that a busy worker does not delay the others.
void Coordinator::listen(milliseconds time, const MessageHandler& handle_message) {
  std::vector<pollfd> entries;
  bool more = false;
  for (WorkerHandle& member : members_) {
    member.pipe->flush();
    const bool unsent = member.pipe->has_unsent();
    const short events = static_cast<short>(unsent ? POLLIN | POLLOUT : POLLIN);
    entries.push_back({member.pipe->closed() ? -1 : member.pipe->socket(), events, 0});
    more = more || member.has_more;
  }
  const int ready =
      ::poll(entries.data(), entries.size(), more ? 0 : static_cast<int>(time.count()));
  if (ready <= 0 && !more) return;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (entries[i].revents == 0 && !members_[i].has_more) continue;
    members_[i].last_message = now();
    int last_message = 0;
    for (; last_message < kMessagesPerTurn; ++last_message) {
      const std::optional<std::string> message = members_[i].pipe->receive();
      if (!message) break;
      handle_one(i, *message, handle_message);
    }
    members_[i].has_more = last_message == kMessagesPerTurn;
  }
  // A worker from which a message arrived during this loop is alive.
  if (::poll(entries.data(), entries.size(), 0) <= 0) return;
  for (size_t i = 0; i < members_.size(); ++i)
    if ((entries[i].revents & POLLIN) != 0) members_[i].last_message = now();
}

}  // namespace shardproof
