#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/call_matcher.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

// What the members bring, in order of members. Read where it lies: nothing is copied. Nothing when
// a member's tensor has no contents (shape-only runs).
std::optional<std::vector<std::span<const std::byte>>> brought_by_members(const Meeting& meeting) {
  std::vector<std::span<const std::byte>> inputs(meeting.arrivals.size());
  for (const Arrival& arrival : meeting.arrivals) {
    const Party& party = *arrival.party;
    if (!brings_contents(party)) return std::nullopt;
    const std::byte* data = brought_data(party, arrival.rank());
    if (data == nullptr) continue;
    inputs[static_cast<size_t>(arrival.member)] = {
        data, static_cast<size_t>(brought_bytes(party, arrival.rank()))};
  }
  return inputs;
}

// A member's part of an answer whose lanes are the members.
void deliver_part(const LocalTensor& answer, const Arrival& arrival) {
  if (answer.empty()) return;
  const Block& block = answer.blocks().front();
  const int64_t lane = block.lanes.index_of(arrival.member);
  if (lane < 0) return;
  const Buffer& buffer = *block.tensor.buffer;
  deliver(*arrival.party, arrival.rank(),
          buffer.bytes.data() + buffer.slots[lane] * buffer.bytes_per_lane, buffer.bytes_per_lane,
          buffer.slots.is_shared() ? &buffer.bytes : nullptr);
}

std::vector<const Arrival*> by_member(const Meeting& meeting) {
  std::vector<const Arrival*> members(meeting.arrivals.size());
  for (const Arrival& arrival : meeting.arrivals)
    members[static_cast<size_t>(arrival.member)] = &arrival;
  return members;
}

LocalTensor answer_of(const Meeting& meeting) {
  const Collective& collective = meeting.arrivals.front().party->call.collective;
  if (collective.kind == CollectiveKind::barrier) return {};
  const auto inputs = brought_by_members(meeting);
  return inputs ? reference(collective, *inputs) : LocalTensor();
}

// Members come in the order of the schedule, and nothing may be told or priced by it.
Meeting in_order_of_members(Meeting meeting) {
  const auto earlier = [](const Arrival& a, const Arrival& b) { return a.member < b.member; };
  std::vector<Arrival>& arrivals = meeting.arrivals;
  if (!std::is_sorted(arrivals.begin(), arrivals.end(), earlier))
    std::sort(arrivals.begin(), arrivals.end(), earlier);
  return meeting;
}

// all_to_all_v: each member cuts its input by its send counts; what comes is laid in order of the
// senders.
void exchange_uneven(const Meeting& meeting) {
  const std::vector<const Arrival*> members = by_member(meeting);
  const int64_t size = size_of(members.front()->party->call.collective.dtype);
  std::vector<std::vector<std::byte>> answers(members.size());
  for (const Arrival* sender : members) {
    const std::byte* data = brought_data(*sender->party, sender->rank());
    const std::span<const int64_t> counts = send_counts(*sender);
    for (size_t to = 0; to < members.size(); ++to) {
      const int64_t bytes = counts[to] * size;
      if (bytes == 0) continue;
      answers[to].insert(answers[to].end(), data, data + bytes);
      data += bytes;
    }
  }
  for (size_t to = 0; to < members.size(); ++to)
    deliver(*members[to]->party, members[to]->rank(), answers[to].data(),
            static_cast<int64_t>(answers[to].size()));
}

}  // namespace

// A queued call of whole groups needs no meeting either.
bool Gate::join_whole(Communicator& comm, Party& party) {
  if (witness_ != nullptr || party.call.lanes.size() == 1 || !party.number.uniform() ||
      comm.has_open_meetings() || party.call.collective.kind == CollectiveKind::all_to_all_v ||
      !comm.covers_whole_groups(party.call.lanes)) {
    return false;
  }
  run_whole(party.call);
  if (cost_) {
    LaneTimes through = party.flight->start;
    pass_times(comm, party.call, party.flight->lanes, through);
    party.flight->end.raise_to(through);
  }
  party.open = 0;
  end_party(party);
  return true;
}

void Gate::join(Communicator& comm, Party& party) {
  if (join_whole(comm, party)) return;
  const int64_t lanes = party.call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const Communicator::Seat seat = comm.seat(party.call.lanes[i]);
    Meeting& meeting = comm.meeting(seat.sibling, party.number[i]);
    if (!meeting.arrivals.empty()) {
      const Party& first = *meeting.arrivals.front().party;
      meeting.differs |= &first != &party && !fits(first.call.collective, party.call.collective);
    }
    meeting.arrivals.push_back({&party, static_cast<int32_t>(i), seat.index});
    if (cost_) meeting.latest = std::max(meeting.latest, arrival(party, i));
    if (static_cast<int64_t>(meeting.arrivals.size()) == comm.group().size())
      complete(comm, meeting);
  }
}

// Members of an uneven exchange bring as much as each says.
Duration Gate::price(const Meeting& meeting) const {
  const Call& call = meeting.arrivals.front().party->call;
  if (call.collective.kind != CollectiveKind::all_to_all_v) return price(call);
  int64_t elements = 0;
  for (const Arrival& arrival : meeting.arrivals)
    for (const int64_t count : send_counts(arrival)) elements += count;
  return cost_->collective(call.collective, elements * size_of(call.collective.dtype));
}

void Gate::complete(Communicator& comm, Meeting& open) {
  const Meeting meeting = in_order_of_members(std::move(open));
  comm.close(meeting.number, meeting.sibling);
  const Collective& collective = meeting.arrivals.front().party->call.collective;
  // Members that all fit the first one have nothing to disagree on, except in their tables.
  if (meeting.differs || collective.kind == CollectiveKind::all_to_all_v) {
    if (std::optional<Finding> finding = find_mismatch(meeting, comm.text(meeting.sibling))) {
      finding->group = comm.text(meeting.sibling);
      report(std::move(*finding));
      for (const Arrival& arrival : meeting.arrivals) fail(*arrival.party);
      return;
    }
  }
  if (witness_ != nullptr) witness_->met(meeting);
  const bool uneven = collective.kind == CollectiveKind::all_to_all_v;
  if (uneven && brought_by_members(meeting)) exchange_uneven(meeting);
  const LocalTensor answer = uneven ? LocalTensor() : answer_of(meeting);
  Duration end = meeting.latest;
  if (cost_) end += price(meeting);
  // One pass, for members are many: what a member's part touches is touched once.
  for (const Arrival& arrival : meeting.arrivals) {
    deliver_part(answer, arrival);
    end_part(*arrival.party, arrival.lane, end);
  }
}

void Gate::find_open_mismatches() {
  for (auto& [key, comm] : comms_)
    for (const auto& [at, meeting] : comm->meetings()) {
      if (!meeting->differs) continue;
      const Meeting ordered = in_order_of_members(*meeting);
      if (std::optional<Finding> finding = find_mismatch(ordered, comm->text(meeting->sibling)))
        report(std::move(*finding));
    }
}

}  // namespace shardproof
