// Implements communicators and windows, on both sides: the coordinator's part (coordinator_world.h,
// coordinator.h) and the worker's (worker_world.h).
//
// Communicators: before a collective runs over a team of endpoints for the first time, all
// processes make a communicator for it. They make those of its sibling groups with it. Example:
// with 4 endpoints and groups {0,1} and {2,3} along one axis, a call in {0,1} makes both.
//
// Windows: room for puts. The coordinator gives each put a range of bytes that no other put uses
// until the target has copied it out. The ranges go round a window of 8 MiB like a ring buffer.
#include <algorithm>
#include <set>

#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/backends/remote/worker/worker_world.h"

namespace shardproof {
namespace {

constexpr int64_t kMaxGroupRanks = 1 << 12;  // larger sets of siblings are not made at once

std::vector<int> team_of(const std::vector<int32_t>& members, const RankBlocks& blocks) {
  std::set<int> team;
  for (const int32_t rank : members) team.insert(blocks.endpoint_of(rank));
  return {team.begin(), team.end()};
}

// Returns the teams of all groups along the same axes, this group's first. Returns only this
// group's if an endpoint belongs to several of them: one communicator call cannot make those.
std::vector<std::vector<int>> sibling_teams(const Group& group, int64_t own,
                                            const RankBlocks& blocks) {
  std::vector<std::vector<int>> teams{team_of(group.members(own), blocks)};
  if (group.count() * group.size() > kMaxGroupRanks) return teams;
  for (int64_t sibling = 0; sibling < group.count(); ++sibling)
    if (sibling != own) teams.push_back(team_of(group.members(sibling), blocks));
  std::set<int> taken;
  for (const std::vector<int>& team : teams)
    for (const int endpoint : team)
      if (!taken.insert(endpoint).second) {
        teams.resize(1);
        return teams;
      }
  return teams;
}

}  // namespace

void CoordinatorWorld::make_communicators(const MatchedCall& event) {
  const Group& group = event.collective.group;
  const int64_t own = group.sibling_of(event.parts.front().rank);
  const std::vector<std::vector<int>> teams =
      pool_.register_new_teams(sibling_teams(group, own, blocks_));
  if (teams.empty()) return;
  WireWriter message = message_of(CoordinatorCommand::form);
  message.add(static_cast<int64_t>(teams.size()));
  for (const std::vector<int>& team : teams)
    message.add(std::vector<int64_t>(team.begin(), team.end()));
  for (int process = 0; process < pool_.processes(); ++process) pool_.send(process, message);
}

void Coordinator::open_windows(int64_t bytes) {
  // The empty team records that windows are open; teams_ is cleared with the processes.
  if (invitation_.empty() || !teams_.insert(std::vector<int>()).second) return;
  WireWriter message = message_of(CoordinatorCommand::window);
  message.add(bytes);
  for (int process = 0; process < processes(); ++process) send(process, message);
}

// Ranges are the same in all windows: the sender writes without asking the target.
int64_t CoordinatorWorld::window_offset(const MatchedCall& event) {
  constexpr int64_t kWindowBytes = int64_t{8} << 20, kAlignment = 256;
  pool_.open_windows(kWindowBytes);
  if (event.bytes == 0) return -1;
  const auto is_taken_out = [this](const PendingPut& put) {
    return pool_.members()[static_cast<size_t>(put.process)].executed >= put.command;
  };
  while (!pending_puts_.empty() && is_taken_out(pending_puts_.front())) pending_puts_.pop_front();
  const int64_t bytes = (event.bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t at = free_place(bytes, kWindowBytes);
  if (at < 0) return -1;
  const int process = blocks_.process_of(event.target);
  pending_puts_.push_back({at, at + bytes, process, hosts_[static_cast<size_t>(process)].sent + 1});
  return at;
}

// Returns an offset after the newest put, or at the start if no room is left after it; else -1.
int64_t CoordinatorWorld::free_place(int64_t bytes, int64_t all) const {
  if (pending_puts_.empty()) return bytes <= all ? 0 : -1;
  const int64_t first = pending_puts_.front().offset, next = pending_puts_.back().end;
  if (next <= first) return next + bytes <= first ? next : -1;
  if (next + bytes <= all) return next;
  return bytes <= first ? 0 : -1;
}

void WorkerWorld::open_window(WireReader& in) {
  const std::string words = link_.transport().open_window(in.number());
  if (link_.transport().self() != 0) return;
  WireWriter message = message_of(WorkerMessage::window);
  message.add(words);
  announce(message);
}

void WorkerWorld::form(WireReader& in) {
  std::vector<std::vector<int>> teams;
  for (int64_t count = in.number(); count > 0; --count) {
    const std::vector<int64_t> team = in.numbers();
    teams.emplace_back(team.begin(), team.end());
  }
  link_.transport().form(teams);
}

}  // namespace shardproof
