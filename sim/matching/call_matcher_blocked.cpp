// Implements the functions of call_matcher.h about blocked calls: the ranks that a call waits for,
// and whether a queued call is the awaited one.
#include <algorithm>

#include "shardproof/sim/matching/call_matcher.h"

namespace shardproof {
namespace {

int64_t lane_in(const SubmittedCall& submitted, int32_t rank) {
  return submitted.lanes.index_of(rank);
}

// Returns a collective of the call that is not complete; null if all are.
const CollectiveInstance* open_instance(const Communicator& comm, const SubmittedCall& submitted) {
  for (int64_t i = 0; i < submitted.lanes.size(); ++i) {
    const int64_t sibling = comm.member_place(submitted.lanes[i]).sibling;
    if (const CollectiveInstance* instance = comm.find_instance(sibling, submitted.number[i]))
      return instance;
  }
  return nullptr;
}

std::vector<int32_t> absent_members(const Communicator& comm, const CollectiveInstance& instance) {
  std::vector<char> came(static_cast<size_t>(comm.group().size()), 0);
  for (const Arrival& arrival : instance.arrivals) came[static_cast<size_t>(arrival.member)] = 1;
  std::vector<int32_t> absent;
  for (size_t i = 0; i < came.size(); ++i)
    if (came[i] == 0) absent.push_back(comm.rank_of(instance.sibling, static_cast<int64_t>(i)));
  std::sort(absent.begin(), absent.end());
  return absent;
}

}  // namespace

CallMatcher::Awaited CallMatcher::awaited(const SubmittedCall& submitted) const {
  const Communicator& comm = comm_of(submitted);
  const CollectiveKind kind = submitted.terms->collective.kind;
  Awaited need;
  if (!is_point_to_point(kind)) {
    const CollectiveInstance* instance = open_instance(comm, submitted);
    if (instance == nullptr) return need;
    need.group = comm.text(instance->sibling);
    need.call = instance->number;
    need.instance = instance;
    need.explained = instance->differs;
    return need;
  }
  for (int64_t i = 0; i < submitted.lanes.size(); ++i) {
    const int32_t self = submitted.lanes[i];
    const int32_t peer = peer_rank(comm, submitted, i);
    const bool sends = kind == CollectiveKind::send;
    if (kind != CollectiveKind::wait_signal) {
      if (comm.unpaired_lane(sends ? self : peer, sends ? peer : self, submitted) != i) continue;
      need.call = submitted.number[i];
    }
    need.group = comm.text(comm.member_place(self).sibling);
    need.peer = peer;
    need.what = kind == CollectiveKind::wait_signal ? "to signal"
                : sends                             ? "to receive"
                                                    : "to send";
    return need;
  }
  return need;
}

std::vector<int32_t> CallMatcher::absent_ranks(const SubmittedCall& submitted,
                                               const Awaited& need) const {
  if (need.instance != nullptr) return absent_members(comm_of(submitted), *need.instance);
  return need.peer < 0 ? std::vector<int32_t>() : std::vector<int32_t>{need.peer};
}

bool CallMatcher::is_awaited(const SubmittedCall& submitted, int32_t rank,
                             const SubmittedCall& waiting) const {
  const int64_t lane = lane_in(submitted, rank);
  if (lane < 0) return false;
  const Communicator& comm = comm_of(submitted);
  const CollectiveKind kind = submitted.terms->collective.kind;
  const CollectiveKind wanted = waiting.terms->collective.kind;
  if (is_point_to_point(kind) != is_point_to_point(wanted)) return false;
  const bool same_comm = &comm == &comm_of(waiting);
  if (!is_point_to_point(kind)) {
    return same_comm && submitted.number[lane] == waiting.number[0];
  }
  const int64_t waiter = lane_in(waiting, peer_rank(comm, submitted, lane));
  if (waiter < 0 || peer_rank(comm_of(waiting), waiting, waiter) != rank) return false;
  if (wanted == CollectiveKind::wait_signal) {
    return (kind == CollectiveKind::put || kind == CollectiveKind::signal) &&
           submitted.terms->collective.slot == waiting.terms->collective.slot;
  }
  const CollectiveKind opposite =
      wanted == CollectiveKind::send ? CollectiveKind::recv : CollectiveKind::send;
  return same_comm && kind == opposite && submitted.number[lane] == waiting.number[waiter];
}

}  // namespace shardproof
