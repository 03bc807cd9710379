#include <algorithm>

#include "shardproof/sim/matching/call_matcher.h"

namespace shardproof {
namespace {

int64_t lane_in(const Party& party, int32_t rank) { return party.call.lanes.index_of(rank); }

// The lanes whose part of a collective is open are those whose meeting still is.
const Meeting* open_meeting(const Communicator& comm, const Party& party) {
  for (int64_t i = 0; i < party.call.lanes.size(); ++i) {
    const int64_t sibling = comm.seat(party.call.lanes[i]).sibling;
    if (const Meeting* meeting = comm.find_meeting(sibling, party.number[i])) return meeting;
  }
  return nullptr;
}

std::vector<int32_t> absent_members(const Communicator& comm, const Meeting& meeting) {
  std::vector<char> came(static_cast<size_t>(comm.group().size()), 0);
  for (const Arrival& arrival : meeting.arrivals) came[static_cast<size_t>(arrival.member)] = 1;
  std::vector<int32_t> absent;
  for (size_t i = 0; i < came.size(); ++i)
    if (came[i] == 0) absent.push_back(comm.rank_of(meeting.sibling, static_cast<int64_t>(i)));
  std::sort(absent.begin(), absent.end());
  return absent;
}

// The lane of a send or receive that has not been paired.
int64_t unpaired_lane(const std::vector<Channel::End>& ends, const Party& party) {
  for (const Channel::End& end : ends)
    if (end.party == &party) return end.lane;
  return -1;
}

}  // namespace

Gate::Awaited Gate::awaited(const Party& party) const {
  const Communicator& comm = comm_of(party);
  const CollectiveKind kind = party.call.collective.kind;
  Awaited need;
  if (!is_point_to_point(kind)) {
    const Meeting* meeting = open_meeting(comm, party);
    if (meeting == nullptr) return need;
    need.group = comm.text(meeting->sibling);
    need.call = meeting->number;
    need.ranks = absent_members(comm, *meeting);
    need.explained = meeting->differs;
    return need;
  }
  for (int64_t i = 0; i < party.call.lanes.size(); ++i) {
    const int32_t self = party.call.lanes[i];
    const int32_t peer = peer_rank(comm, party, i);
    const bool sends = kind == CollectiveKind::send;
    if (kind != CollectiveKind::wait_signal) {
      const Channel* channel =
          sends ? comm.find_channel(self, peer) : comm.find_channel(peer, self);
      if (unpaired_lane(sends ? channel->senders : channel->receivers, party) != i) continue;
      need.call = party.number[i];
    }
    need.group = comm.text(comm.seat(self).sibling);
    need.ranks = {peer};
    need.what = kind == CollectiveKind::wait_signal ? "to signal"
                : sends                             ? "to receive"
                                                    : "to send";
    return need;
  }
  return need;
}

bool Gate::answers(const Party& party, int32_t rank, const Party& waiting) const {
  const int64_t lane = lane_in(party, rank);
  if (lane < 0) return false;
  const Communicator& comm = comm_of(party);
  const CollectiveKind kind = party.call.collective.kind;
  const CollectiveKind wanted = waiting.call.collective.kind;
  if (is_point_to_point(kind) != is_point_to_point(wanted)) return false;
  const bool same_comm = &comm == &comm_of(waiting);
  if (!is_point_to_point(kind)) {
    return same_comm && party.number[lane] == waiting.number[0];
  }
  const int64_t waiter = lane_in(waiting, peer_rank(comm, party, lane));
  if (waiter < 0 || peer_rank(comm_of(waiting), waiting, waiter) != rank) return false;
  if (wanted == CollectiveKind::wait_signal) {
    return (kind == CollectiveKind::put || kind == CollectiveKind::signal) &&
           party.call.collective.slot == waiting.call.collective.slot;
  }
  const CollectiveKind opposite =
      wanted == CollectiveKind::send ? CollectiveKind::recv : CollectiveKind::send;
  return same_comm && kind == opposite && party.number[lane] == waiting.number[waiter];
}

}  // namespace shardproof
