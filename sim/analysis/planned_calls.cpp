// Implements planned_calls.h. Calls match calls of the same communicator, which is a group's key
// and name; signals match waits of the same slot, whatever their groups are.
#include "shardproof/sim/analysis/planned_calls.h"

#include <algorithm>
#include <limits>

namespace shardproof {

PlannedCalls::Role PlannedCalls::role_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::send: return Role::send;
    case CollectiveKind::recv: return Role::receive;
    case CollectiveKind::put:
    case CollectiveKind::signal: return Role::signal;
    case CollectiveKind::wait_signal: return Role::wait;
    default: return Role::collective;
  }
}

PlannedCalls::Role PlannedCalls::answer_to(Role role) {
  switch (role) {
    case Role::send: return Role::receive;
    case Role::receive: return Role::send;
    case Role::wait: return Role::signal;
    default: return role;
  }
}

PlannedCalls::Calls PlannedCalls::calls_of(Role role, const Collective& call) {
  if (role == Role::signal || role == Role::wait) return {role, ""};
  return {role, call.group.name() + " " + call.group.key()};
}

void PlannedCalls::add(const Collective& call, const std::vector<Caller>& callers) {
  const Role role = role_of(call.kind);
  const bool by_slot = role == Role::signal || role == Role::wait;
  Tally& tally = tallies_[calls_of(role, call)];
  for (const Caller& caller : callers) {
    const int64_t sibling = call.group.sibling_of(caller.rank);
    const bool paired = role != Role::collective;
    if (sibling < 0 || (paired && (caller.peer < 0 || caller.peer >= call.group.size()))) continue;
    const int32_t other = paired ? call.group.member(sibling, caller.peer) : -1;
    tally[{caller.rank, other, by_slot ? call.slot : 0}] += role == Role::wait ? call.repeat : 1;
  }
}

int64_t PlannedCalls::count(Role role, const Collective& call, int32_t rank, int32_t other) const {
  const auto tally = tallies_.find(calls_of(role, call));
  if (tally == tallies_.end()) return 0;
  const bool by_slot = role == Role::signal || role == Role::wait;
  const auto found = tally->second.find({rank, other, by_slot ? call.slot : 0});
  return found == tally->second.end() ? 0 : found->second;
}

std::vector<int32_t> PlannedCalls::lacking(const std::vector<int32_t>& ranks,
                                           const std::vector<int32_t>& waiters,
                                           const Collective& waiting) const {
  const Role role = role_of(waiting.kind);
  const bool paired = role != Role::collective;
  std::vector<int32_t> lacking;
  if (waiters.empty() || (paired && (waiters.size() > 1 || ranks.size() > 1))) return lacking;
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (const int32_t waiter : waiters)
    fewest = std::min(fewest, count(role, waiting, waiter, paired ? ranks.front() : -1));
  for (const int32_t rank : ranks)
    if (count(answer_to(role), waiting, rank, paired ? waiters.front() : -1) < fewest)
      lacking.push_back(rank);
  return lacking;
}

}  // namespace shardproof
