// Implements call_matcher.h: communicators, numbers, whole groups, start and end of submissions.
// call_matcher_collective.cpp matches collectives, call_matcher_point_to_point.cpp messages and
// one-sided calls, call_matcher_blocked.cpp answers what blocked calls wait for.
#include "shardproof/sim/matching/call_matcher.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

Communicator& CallMatcher::comm(const Group& group) {
  // Copies of a group share their key object.
  if (last_ != nullptr && &last_->group().key() == &group.key()) return *last_;
  std::unique_ptr<Communicator>& slot = comms_[{group.key(), group.name()}];
  if (!slot) slot = std::make_unique<Communicator>(group);
  last_ = slot.get();
  return *slot;
}

const Communicator& CallMatcher::comm_of(const SubmittedCall& submitted) const {
  const Group& group = submitted.call.collective.group;
  return *comms_.at({group.key(), group.name()});
}

void CallMatcher::report(Finding finding) { findings_.push_back(std::move(finding)); }

Duration CallMatcher::price(const Call& call) const {
  return cost_->collective(call.collective, whole_bytes_of(call.collective));
}

int32_t CallMatcher::peer_rank(const Communicator& comm, const SubmittedCall& submitted,
                               int64_t lane) const {
  return comm.rank_of(comm.member_place(submitted.call.lanes[lane]).sibling, submitted.peer(lane));
}

Duration CallMatcher::arrival(const SubmittedCall& submitted, int64_t lane) const {
  const Submission& submission = *submitted.submission;
  return submission.start[submission.lane_of(submitted.call.lanes[lane])];
}

// --- admission and numbers
// ------------------------------------------------------------------------

void CallMatcher::drop_non_members(Call& call) {
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

void CallMatcher::number(SubmittedCall& submitted) {
  Communicator& members = comm(submitted.call.collective.group);
  const CollectiveKind kind = submitted.call.collective.kind;
  if (!is_point_to_point(kind)) {
    submitted.number = members.next_numbers(submitted.call.lanes);
    return;
  }
  if (kind != CollectiveKind::send && kind != CollectiveKind::recv) return;
  const bool sends = kind == CollectiveKind::send;
  const int64_t lanes = submitted.call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int32_t self = submitted.call.lanes[i];
    const int32_t peer = peer_rank(members, submitted, i);
    const int64_t number = members.next_number(kind, sends ? self : peer, sends ? peer : self);
    // Mostly one number for all lanes.
    if (i == 0) submitted.number.set_all(number);
    if (!submitted.number.uniform() || number != submitted.number[0])
      submitted.number.at(i, lanes) = number;
  }
}

// --- whole groups at once
// -------------------------------------------------------------------------

bool CallMatcher::complete_if_whole_group(Call& call, const Lanes& cohort, LaneTimes* times) {
  if (observer_ != nullptr) return false;
  const CollectiveKind kind = call.collective.kind;
  if (is_point_to_point(kind) || has_counts(kind)) return false;
  Communicator& members = comm(call.collective.group);
  if (members.has_open_instances() || !members.covers_whole_groups(call.lanes)) return false;
  if (!members.next_numbers_agree(call.lanes)) return false;
  members.next_numbers(call.lanes);
  run_whole(call);
  if (times != nullptr) pass_times(members, call, cohort, *times);
  return true;
}

void CallMatcher::run_whole(const Call& call) {
  if (call.output == nullptr || call.output->empty()) return;
  SP_CHECK(call.input != nullptr, "{} has no input", to_string(call.collective));
  if (!has_contents_everywhere(*call.input)) return;
  if (call.input->blocks().size() == 1 && call.input->blocks()[0].lanes == call.lanes) {
    deliver(reference(call.collective, *call.input), *call.output);
  } else {
    deliver(reference(call.collective, call.input->restrict_to(call.lanes)), *call.output);
  }
}

void CallMatcher::pass_times(const Communicator& comm, const Call& call, const Lanes& cohort,
                             LaneTimes& times) const {
  const Duration cost = price(call);
  if (times.uniform() && call.lanes == cohort) {
    times.set_all(times[0] + cost);
    return;
  }
  std::vector<Duration> ready(static_cast<size_t>(comm.group().count()));
  const int64_t lanes = call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    Duration& at = ready[static_cast<size_t>(comm.member_place(call.lanes[i]).sibling)];
    at = std::max(at, times[cohort.index_of(call.lanes[i])]);
  }
  for (int64_t i = 0; i < lanes; ++i) {
    const size_t sibling = static_cast<size_t>(comm.member_place(call.lanes[i]).sibling);
    times.at(cohort.index_of(call.lanes[i]), cohort.size()) = ready[sibling] + cost;
  }
  times.collapse();
}

// --- flights
// --------------------------------------------------------------------------------------

void CallMatcher::start(Submission& submission) {
  submission.started = true;
  if (cost_) submission.end = submission.start;
  submission.open = static_cast<int32_t>(submission.calls.size());
  for (SubmittedCall& submitted : submission.calls)
    submitted.open = static_cast<int32_t>(submitted.call.lanes.size());
  if (cost_ && submission.calls.size() > 1) add_up_messages(submission);
  // Starts all calls even if one is found wrong: findings must not depend on which came first.
  for (SubmittedCall& submitted : submission.calls) {
    if (submitted.open == 0) {
      end_party(submitted);
    } else {
      begin(submitted);
    }
  }
  if ((submission.calls.empty() || submission.failed) && !submission.ended) {
    submission.ended = true;
    ended_.push_back(&submission);
  }
}

void CallMatcher::begin(SubmittedCall& submitted) {
  Communicator& members = comm(submitted.call.collective.group);
  switch (submitted.call.collective.kind) {
    case CollectiveKind::send:
    case CollectiveKind::recv: pair_up(members, submitted); break;
    case CollectiveKind::put:
    case CollectiveKind::signal:
    case CollectiveKind::wait_signal: act_one_sided(members, submitted); break;
    default: join(members, submitted);
  }
}

void CallMatcher::end_party(SubmittedCall& submitted) {
  release_views(submitted);
  Submission& submission = *submitted.submission;
  if (--submission.open != 0 || submission.ended) return;
  submission.ended = true;
  if (cost_) submission.end.collapse();
  ended_.push_back(&submission);
}

void CallMatcher::end_part(SubmittedCall& submitted, int64_t lane, Duration end) {
  Submission& submission = *submitted.submission;
  if (cost_) {
    const int64_t lanes = submission.lanes.size();
    const int64_t at = lanes == 1 ? 0 : submission.lanes.index_of(submitted.call.lanes[lane]);
    Duration& time = submission.end.at(at, lanes);
    time = std::max(time, end);
  }
  if (--submitted.open == 0) end_party(submitted);
}

void CallMatcher::fail(SubmittedCall& submitted) {
  Submission& submission = *submitted.submission;
  submission.failed = true;
  if (submission.ended) return;
  submission.ended = true;
  ended_.push_back(&submission);
}

}  // namespace shardproof
