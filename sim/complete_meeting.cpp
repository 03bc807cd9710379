#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/error.h"
#include "shardproof/sim/deliver.h"
#include "shardproof/sim/gate.h"
#include "shardproof/sim/mismatch.h"

namespace shardproof {
namespace {

// Members' inputs side by side as one value, in order of rank. Equal when all read the same bytes:
// then it is one copy. Members that bring nothing (off the root) bring zeros, which `reference`
// does not look at.
LocalTensor gathered_inputs(const Meeting& meeting) {
  std::vector<const Arrival*> by_rank;
  for (const Arrival& arrival : meeting.arrivals) by_rank.push_back(&arrival);
  std::sort(by_rank.begin(), by_rank.end(),
            [](const Arrival* a, const Arrival* b) { return a->rank() < b->rank(); });
  std::vector<int32_t> ranks;
  std::vector<const std::byte*> data;
  int64_t bytes = 0;
  for (const Arrival* arrival : by_rank) {
    ranks.push_back(arrival->rank());
    data.push_back(brought_data(*arrival->party, arrival->rank()));
    bytes = std::max(bytes, brought_bytes(*arrival->party, arrival->rank()));
  }
  const bool equal = std::all_of(data.begin(), data.end(),
                                 [&](const std::byte* each) { return each == data.front(); });
  const DType dtype = meeting.arrivals.front().party->call.collective.dtype;
  const Lanes lanes = Lanes::of(std::move(ranks));
  Tensor all = Tensor::empty(dtype, {bytes / size_of(dtype)}, lanes,
                             equal ? Slots::shared(lanes.size()) : Slots::each(lanes.size()));
  for (int64_t i = 0; i < all.buffer->slots.count() && bytes != 0; ++i) {
    const std::byte* source = data[static_cast<size_t>(i)];
    std::byte* target = all.mutate(i);
    if (source == nullptr) {
      std::memset(target, 0, static_cast<size_t>(bytes));
    } else {
      std::memcpy(target, source, static_cast<size_t>(bytes));
    }
  }
  return LocalTensor(std::move(all));
}

bool all_bring_contents(const Meeting& meeting) {
  return std::all_of(meeting.arrivals.begin(), meeting.arrivals.end(),
                     [](const Arrival& arrival) { return brings_contents(*arrival.party); });
}

void scatter_answer(const LocalTensor& answer, const Meeting& meeting) {
  for (const Arrival& arrival : meeting.arrivals) {
    const int64_t rank = arrival.rank();
    const Block* block = answer.find(rank);
    if (block == nullptr) continue;
    const Buffer& buffer = *block->tensor.buffer;
    const bool one = buffer.slots.is_shared() && block->tensor.offset == 0;
    const int64_t bytes = block->tensor.elements() * size_of(block->tensor.dtype);
    deliver(*arrival.party, rank,
            bytes == 0 ? nullptr : block->tensor.data(block->slot(block->lanes.index_of(rank))),
            bytes, one && bytes == buffer.bytes_per_lane ? &buffer.bytes : nullptr);
  }
}

std::vector<const Arrival*> by_member(const Meeting& meeting) {
  std::vector<const Arrival*> members(meeting.arrivals.size());
  for (const Arrival& arrival : meeting.arrivals)
    members[static_cast<size_t>(arrival.member)] = &arrival;
  return members;
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
  if (party.call.lanes.size() == 1 || !party.number.uniform() || comm.has_open_meetings() ||
      party.call.collective.kind == CollectiveKind::all_to_all_v ||
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
    if (static_cast<int64_t>(meeting.arrivals.size()) == comm.group().size())
      complete(comm, meeting);
    if (party.flight->failed) return;
  }
}

void Gate::complete(Communicator& comm, Meeting& open) {
  const Meeting meeting = std::move(open);
  comm.close(meeting.number, meeting.sibling);
  std::optional<Finding> finding = find_mismatch(meeting, comm.text(meeting.sibling));
  if (finding) {
    finding->group = comm.text(meeting.sibling);
    report(std::move(*finding));
    for (const Arrival& arrival : meeting.arrivals) fail(*arrival.party);
    return;
  }
  const Collective& collective = meeting.arrivals.front().party->call.collective;
  if (collective.kind == CollectiveKind::barrier || !all_bring_contents(meeting)) {
  } else if (collective.kind == CollectiveKind::all_to_all_v) {
    exchange_uneven(meeting);
  } else {
    scatter_answer(reference(collective, gathered_inputs(meeting)), meeting);
  }
  Duration end;
  if (cost_) {
    for (const Arrival& a : meeting.arrivals) end = std::max(end, arrival(*a.party, a.lane));
    end += price(meeting.arrivals.front().party->call);
  }
  for (const Arrival& a : meeting.arrivals) end_part(*a.party, a.lane, end);
}

void Gate::find_open_mismatches() {
  for (auto& [key, comm] : comms_)
    for (const auto& [at, meeting] : comm->meetings()) {
      if (!meeting->differs) continue;
      if (std::optional<Finding> finding = find_mismatch(*meeting, comm->text(meeting->sibling)))
        report(std::move(*finding));
    }
}

}  // namespace shardproof
