// Implements the collective part of call_matcher.h.
//
// 1. join: each lane of a call arrives at the collective with its number; calls that do not fit the
//    first one are noted.
// 2. complete: runs when the last member has joined. If the calls do not fit, all of them fail with
//    one mismatch. Otherwise the result of `reference` is written to each member's output. All
//    members end at the same time: the arrival of the last one plus the price.
#include <algorithm>
#include <span>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/prefetch.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/call_matcher.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

// Calls of thousands of ranks do not fit into the cache. Loops over arrivals prefetch the data of
// later arrivals: first a call, then the buffers that it names.
constexpr size_t kCallsAhead = 20, kBuffersAhead = 12, kContentsAhead = 6;
constexpr size_t kHotBytes = 128;  // of a call

const SubmittedCall* call_ahead(const Arrivals& arrivals, size_t at) {
  return at < arrivals.size() ? arrivals[at].submitted : nullptr;
}

void prefetch_inputs(const Arrivals& arrivals, size_t at) {
  prefetch(call_ahead(arrivals, at + kCallsAhead), kHotBytes);
  if (const SubmittedCall* const call = call_ahead(arrivals, at + kBuffersAhead))
    prefetch(call->in.buffer.get());
  if (const SubmittedCall* const call = call_ahead(arrivals, at + kContentsAhead))
    if (call->in.buffer != nullptr) call->in.buffer->bytes.prefetch();
}

void prefetch_outputs(const Arrivals& arrivals, size_t at, bool has_clock) {
  prefetch(call_ahead(arrivals, at + kCallsAhead), kHotBytes);
  if (const SubmittedCall* const call = call_ahead(arrivals, at + kBuffersAhead)) {
    prefetch(call->in.buffer.get());
    prefetch(call->out.buffer.get());
    prefetch(call->submission, has_clock ? sizeof(Submission) : 1);
  }
}

// Returns the inputs by member, without copying; nullopt if one has no contents (shape-only run).
std::optional<std::vector<std::span<const std::byte>>> brought_by_members(
    const CollectiveInstance& instance) {
  std::vector<std::span<const std::byte>> inputs(instance.arrivals.size());
  for (size_t i = 0; i < instance.arrivals.size(); ++i) {
    const Arrival& arrival = instance.arrivals[i];
    const SubmittedCall& submitted = *arrival.submitted;
    prefetch_inputs(instance.arrivals, i);
    const std::optional<std::span<const std::byte>> input = input_of(submitted, arrival.rank());
    if (!input) return std::nullopt;
    inputs[static_cast<size_t>(arrival.member)] = *input;
  }
  return inputs;
}

// Writes a member's part of a result whose lanes are the members.
void deliver_part(const LocalTensor& result, const Arrival& arrival) {
  if (result.empty()) return;
  const Block& block = result.blocks().front();
  const int64_t lane = block.lanes.index_of(arrival.member);
  if (lane < 0) return;
  const Buffer& buffer = *block.tensor.buffer;
  deliver(*arrival.submitted, arrival.rank(),
          buffer.bytes.data() + buffer.slots[lane] * buffer.bytes_per_lane, buffer.bytes_per_lane,
          buffer.slots.is_shared() ? &buffer.bytes : nullptr);
}

std::vector<const Arrival*> by_member(const CollectiveInstance& instance) {
  std::vector<const Arrival*> members(instance.arrivals.size());
  for (const Arrival& arrival : instance.arrivals)
    members[static_cast<size_t>(arrival.member)] = &arrival;
  return members;
}

LocalTensor result_of(const CollectiveInstance& instance) {
  const Collective& collective = instance.arrivals.front().submitted->terms->collective;
  if (collective.kind == CollectiveKind::barrier) return {};
  const auto inputs = brought_by_members(instance);
  return inputs ? reference(collective, *inputs) : LocalTensor();
}

// Sorts arrivals by member: neither findings nor prices may depend on the schedule.
CollectiveInstance sorted_by_member(CollectiveInstance instance) {
  const auto earlier = [](const Arrival& a, const Arrival& b) { return a.member < b.member; };
  Arrivals& arrivals = instance.arrivals;
  if (!std::is_sorted(arrivals.begin(), arrivals.end(), earlier))
    std::sort(arrivals.begin(), arrivals.end(), earlier);
  return instance;
}

// all_to_all_v: each member cuts its input by its send counts; pieces arrive in order of senders.
void exchange_uneven(const CollectiveInstance& instance) {
  const std::vector<const Arrival*> members = by_member(instance);
  const int64_t size = size_of(members.front()->submitted->terms->collective.dtype);
  std::vector<std::vector<std::byte>> received(members.size());
  for (const Arrival* sender : members) {
    const std::byte* data = input_data(*sender->submitted, sender->rank());
    const std::span<const int64_t> counts = send_counts(*sender);
    for (size_t to = 0; to < members.size(); ++to) {
      const int64_t bytes = counts[to] * size;
      if (bytes == 0) continue;
      received[to].insert(received[to].end(), data, data + bytes);
      data += bytes;
    }
  }
  for (size_t to = 0; to < members.size(); ++to)
    deliver(*members[to]->submitted, members[to]->rank(), received[to].data(),
            static_cast<int64_t>(received[to].size()));
}

}  // namespace

// Fast path: a call that covers whole groups needs no instance.
bool CallMatcher::join_whole(Communicator& comm, SubmittedCall& submitted) {
  if (observer_ != nullptr || submitted.lanes.size() == 1 || !submitted.number.uniform() ||
      comm.has_open_instances() || has_counts(submitted.terms->collective.kind) ||
      !comm.covers_whole_groups(submitted.lanes)) {
    return false;
  }
  const Collective& collective = submitted.terms->collective;
  run_whole(collective, submitted.lanes, &submitted.input, &submitted.output);
  if (cost_) {
    LaneTimes through = submitted.submission->start;
    pass_times(comm, collective, submitted.lanes, *submitted.submission->lanes, through);
    submitted.submission->end.raise_to(through);
  }
  submitted.open = 0;
  end_call(submitted);
  return true;
}

void CallMatcher::join(Communicator& comm, SubmittedCall& submitted) {
  if (join_whole(comm, submitted)) return;
  const int64_t lanes = submitted.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const Communicator::MemberPlace member_place = comm.member_place(submitted.lanes[i]);
    CollectiveInstance& instance = comm.instance(member_place.sibling, submitted.number[i]);
    if (!instance.arrivals.empty()) {
      const SubmittedCall& first = *instance.arrivals.front().submitted;
      instance.differs |= first.terms != submitted.terms &&
                          !fits(first.terms->collective, submitted.terms->collective);
    }
    instance.arrivals.push_back({&submitted, static_cast<int32_t>(i), member_place.index});
    if (cost_) instance.latest = std::max(instance.latest, arrival(submitted, i));
    if (static_cast<int64_t>(instance.arrivals.size()) == comm.group().size())
      complete(comm, instance);
  }
}

// In an uneven exchange each member states its own counts.
Duration CallMatcher::price(const CollectiveInstance& instance) const {
  const Collective& collective = instance.arrivals.front().submitted->terms->collective;
  if (!has_counts(collective.kind)) return price(collective);
  Duration longest;
  for (const Arrival& arrival : instance.arrivals)
    for (const std::span<const int64_t> counts : {send_counts(arrival), recv_counts(arrival)})
      longest = std::max(longest,
                         time_of_counts(*cost_, counts, arrival.member, size_of(collective.dtype)));
  return longest;
}

void CallMatcher::complete(Communicator& comm, CollectiveInstance& open) {
  const CollectiveInstance instance = sorted_by_member(std::move(open));
  comm.close(instance.number, instance.sibling);
  const Collective& collective = instance.arrivals.front().submitted->terms->collective;
  // Members whose calls fit can still disagree in the count tables of all_to_all_v.
  if (instance.differs || has_counts(collective.kind)) {
    if (std::optional<Finding> finding = find_mismatch(instance, comm.text(instance.sibling))) {
      finding->group = comm.text(instance.sibling);
      report(std::move(*finding));
      for (const Arrival& arrival : instance.arrivals) fail(*arrival.submitted);
      return;
    }
  }
  if (observer_ != nullptr) observer_->on_collective(instance);
  const bool uneven = has_counts(collective.kind);
  if (uneven && brought_by_members(instance)) exchange_uneven(instance);
  const LocalTensor result = uneven ? LocalTensor() : result_of(instance);
  Duration end = instance.latest;
  if (cost_) end += price(instance);
  // One pass over the members, which may be many: each one's memory is touched once.
  for (size_t i = 0; i < instance.arrivals.size(); ++i) {
    const Arrival& arrival = instance.arrivals[i];
    prefetch_outputs(instance.arrivals, i, cost_ != nullptr);
    deliver_part(result, arrival);
    end_part(*arrival.submitted, arrival.lane, end);
  }
}

void CallMatcher::find_open_mismatches() {
  for (auto& [key, comm] : comms_)
    for (const auto& [at, instance] : comm->open_instances()) {
      if (!instance.differs) continue;
      const CollectiveInstance ordered = sorted_by_member(instance);
      if (std::optional<Finding> finding = find_mismatch(ordered, comm->text(instance.sibling)))
        report(std::move(*finding));
    }
}

}  // namespace shardproof
