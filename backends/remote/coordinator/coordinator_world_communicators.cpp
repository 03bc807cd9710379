// Before endpoints exchange something for the first time, a transport that keeps communicators
// makes one for them; that takes all processes of the run, so all are told.
#include <algorithm>
#include <set>

#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/backends/remote/worker/worker_world.h"

namespace shardproof {
namespace {

constexpr int64_t kMostRanks = 1 << 12;  // of a group whose siblings are all looked at

std::vector<int> team_of(const std::vector<int32_t>& members, const RankBlocks& blocks) {
  std::set<int> team;
  for (const int32_t rank : members) team.insert(blocks.endpoint_of(rank));
  return {team.begin(), team.end()};
}

// The teams of all groups along the same axes, this one first; only this one where endpoints are in
// several of them.
std::vector<std::vector<int>> sibling_teams(const Group& group, int64_t own,
                                            const RankBlocks& blocks) {
  std::vector<std::vector<int>> teams{team_of(group.members(own), blocks)};
  if (group.count() * group.size() > kMostRanks) return teams;
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

void CoordinatorWorld::form_teams(const MatchedCall& event) {
  const Group& group = event.collective.group;
  const int64_t own = group.sibling_of(event.parts.front().rank);
  const std::vector<std::vector<int>> teams = pool_.new_teams(sibling_teams(group, own, blocks_));
  if (teams.empty()) return;
  WireWriter message;
  message.add(static_cast<int64_t>(CoordinatorCommand::form));
  message.add(static_cast<int64_t>(teams.size()));
  for (const std::vector<int>& team : teams)
    message.add(std::vector<int64_t>(team.begin(), team.end()));
  for (int process = 0; process < pool_.processes(); ++process) pool_.send(process, message);
}

void Coordinator::open_windows(int64_t bytes) {
  // Remembered among the teams, which go with their processes too.
  if (invitation_.empty() || !teams_.insert(std::vector<int>()).second) return;
  WireWriter message;
  message.add(static_cast<int64_t>(CoordinatorCommand::window));
  message.add(bytes);
  for (int process = 0; process < processes(); ++process) send(process, message);
}

// Nobody asks the target before a put lands, so it has a place of its own until the target has
// taken it out, whatever slot it is for. Places are the same in all windows, and go round.
int64_t CoordinatorWorld::window_offset(const MatchedCall& event) {
  constexpr int64_t kWindowBytes = int64_t{8} << 20, kAlignment = 256;
  pool_.open_windows(kWindowBytes);
  if (event.bytes == 0) return -1;
  const auto is_taken_out = [this](const PendingPut& landing) {
    return pool_.members()[static_cast<size_t>(landing.process)].executed >= landing.order;
  };
  while (!landings_.empty() && is_taken_out(landings_.front())) landings_.pop_front();
  const int64_t bytes = (event.bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t at = free_place(bytes, kWindowBytes);
  if (at < 0) return -1;
  const int process = blocks_.process_of(event.target);
  landings_.push_back({at, at + bytes, process, hosts_[static_cast<size_t>(process)].sent + 1});
  return at;
}

// Behind the newest one, or at the start when there is no room behind it; -1: there is none.
int64_t CoordinatorWorld::free_place(int64_t bytes, int64_t all) const {
  if (landings_.empty()) return bytes <= all ? 0 : -1;
  const int64_t first = landings_.front().offset, next = landings_.back().end;
  if (next <= first) return next + bytes <= first ? next : -1;
  if (next + bytes <= all) return next;
  return bytes <= first ? 0 : -1;
}

void WorkerWorld::open_window(WireReader& in) {
  const std::string words = link_.transport().open_window(in.number());
  if (link_.transport().self() != 0) return;
  WireWriter message;
  message.add(static_cast<int64_t>(WorkerMessage::window));
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
