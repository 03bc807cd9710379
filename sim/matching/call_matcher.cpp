#include "shardproof/sim/matching/call_matcher.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

Communicator& Gate::comm(const Group& group) {
  // Copies of a group share their key.
  if (last_ != nullptr && &last_->group().key() == &group.key()) return *last_;
  std::unique_ptr<Communicator>& slot = comms_[{group.key(), group.name()}];
  if (!slot) slot = std::make_unique<Communicator>(group);
  last_ = slot.get();
  return *slot;
}

const Communicator& Gate::comm_of(const Party& party) const {
  const Group& group = party.call.collective.group;
  return *comms_.at({group.key(), group.name()});
}

void Gate::report(Finding finding) { findings_.push_back(std::move(finding)); }

Duration Gate::price(const Call& call) const {
  const int64_t whole = call.whole_bytes != 0 ? call.whole_bytes : whole_bytes_of(call.collective);
  return cost_->collective(call.collective, whole);
}

int32_t Gate::peer_rank(const Communicator& comm, const Party& party, int64_t lane) const {
  return comm.rank_of(comm.seat(party.call.lanes[lane]).sibling, party.peer(lane));
}

Duration Gate::arrival(const Party& party, int64_t lane) const {
  const Flight& flight = *party.flight;
  return flight.start[flight.lane_of(party.call.lanes[lane])];
}

// --- admission and numbers
// ------------------------------------------------------------------------

void Gate::admit(Call& call) {
  const Communicator& members = comm(call.collective.group);
  if (members.lanes().contains(call.lanes)) return;
  const Lanes outside = call.lanes.minus(members.lanes());
  report(not_a_member(call, outside, members.text(0)));
  std::vector<int64_t> peers;
  std::vector<std::vector<int64_t>> send_counts, recv_counts;
  for (int64_t i = 0; i < call.lanes.size(); ++i) {
    if (outside.contains(call.lanes[i])) continue;
    const size_t at = static_cast<size_t>(i);
    if (!call.peers.empty()) peers.push_back(call.peers[at]);
    if (!call.send_counts.empty()) send_counts.push_back(std::move(call.send_counts[at]));
    if (!call.recv_counts.empty()) recv_counts.push_back(std::move(call.recv_counts[at]));
  }
  call.lanes = call.lanes.minus(outside);
  call.peers = std::move(peers);
  call.send_counts = std::move(send_counts);
  call.recv_counts = std::move(recv_counts);
}

void Gate::number(Party& party) {
  Communicator& members = comm(party.call.collective.group);
  const CollectiveKind kind = party.call.collective.kind;
  if (!is_point_to_point(kind)) {
    party.number = members.next_numbers(party.call.lanes);
    return;
  }
  if (kind != CollectiveKind::send && kind != CollectiveKind::recv) return;
  const int64_t lanes = party.call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t self = party.call.lanes[i];
    const int64_t peer = peer_rank(members, party, i);
    const bool sends = kind == CollectiveKind::send;
    Channel& channel = sends ? members.channel(self, peer) : members.channel(peer, self);
    party.number.at(i, lanes) = ++(sends ? channel.sends : channel.receives);
  }
}

// --- whole groups at once
// -------------------------------------------------------------------------

bool Gate::pass(Call& call, const Lanes& cohort, LaneTimes* times) {
  if (witness_ != nullptr) return false;
  const CollectiveKind kind = call.collective.kind;
  if (is_point_to_point(kind) || kind == CollectiveKind::all_to_all_v) return false;
  Communicator& members = comm(call.collective.group);
  if (members.has_open_meetings() || !members.covers_whole_groups(call.lanes)) return false;
  if (!members.next_numbers_agree(call.lanes)) return false;
  members.next_numbers(call.lanes);
  run_whole(call);
  if (times != nullptr) pass_times(members, call, cohort, *times);
  return true;
}

void Gate::run_whole(const Call& call) {
  if (call.output == nullptr || call.output->empty()) return;
  SP_CHECK(call.input != nullptr, "{} brings nothing", to_string(call.collective));
  if (!holds_contents(*call.input)) return;
  if (call.input->blocks().size() == 1 && call.input->blocks()[0].lanes == call.lanes) {
    deliver(reference(call.collective, *call.input), *call.output);
  } else {
    deliver(reference(call.collective, call.input->restrict_to(call.lanes)), *call.output);
  }
}

void Gate::pass_times(const Communicator& comm, const Call& call, const Lanes& cohort,
                      LaneTimes& times) const {
  const Duration cost = price(call);
  if (times.uniform() && call.lanes == cohort) {
    times.set_all(times[0] + cost);
    return;
  }
  std::vector<Duration> ready(static_cast<size_t>(comm.group().count()));
  const int64_t lanes = call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    Duration& at = ready[static_cast<size_t>(comm.seat(call.lanes[i]).sibling)];
    at = std::max(at, times[cohort.index_of(call.lanes[i])]);
  }
  for (int64_t i = 0; i < lanes; ++i) {
    const size_t sibling = static_cast<size_t>(comm.seat(call.lanes[i]).sibling);
    times.at(cohort.index_of(call.lanes[i]), cohort.size()) = ready[sibling] + cost;
  }
  times.collapse();
}

// --- flights
// --------------------------------------------------------------------------------------

void Gate::start(Flight& flight) {
  flight.started = true;
  flight.end = flight.start;
  flight.open = static_cast<int64_t>(flight.parties.size());
  for (Party& party : flight.parties) party.open = party.call.lanes.size();
  // All of them, even after one that is found wrong: what else is wrong and who goes on must not
  // depend on which was met first.
  for (Party& party : flight.parties) {
    if (party.open == 0) {
      end_party(party);
    } else {
      begin(party);
    }
  }
  if ((flight.parties.empty() || flight.failed) && !flight.ended) {
    flight.ended = true;
    ended_.push_back(&flight);
  }
}

void Gate::begin(Party& party) {
  Communicator& members = comm(party.call.collective.group);
  switch (party.call.collective.kind) {
    case CollectiveKind::send:
    case CollectiveKind::recv: pair_up(members, party); break;
    case CollectiveKind::put:
    case CollectiveKind::signal:
    case CollectiveKind::wait_signal: act_one_sided(members, party); break;
    default: join(members, party);
  }
}

void Gate::end_party(Party& party) {
  drop_views(party);
  Flight& flight = *party.flight;
  if (--flight.open != 0 || flight.ended) return;
  flight.ended = true;
  if (cost_) flight.end.collapse();
  ended_.push_back(&flight);
}

void Gate::end_part(Party& party, int64_t lane, Duration end) {
  Flight& flight = *party.flight;
  if (cost_) {
    const int64_t rank = party.call.lanes[lane];
    Duration& time = flight.end.at(flight.lane_of(rank), flight.lanes.size());
    time = std::max(time, end);
  }
  if (--party.open == 0) end_party(party);
}

void Gate::fail(Party& party) {
  Flight& flight = *party.flight;
  flight.failed = true;
  if (flight.ended) return;
  flight.ended = true;
  ended_.push_back(&flight);
}

}  // namespace shardproof
