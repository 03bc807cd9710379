// Implements call_matcher.h: communicators, numbers, whole groups, start and end of submissions.
// call_matcher_collective.cpp matches collectives, call_matcher_point_to_point.cpp messages and
// one-sided calls, call_matcher_blocked.cpp finds the ranks for which blocked calls wait.
#include "shardproof/sim/matching/call_matcher.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

Communicator& CallMatcher::find_comm(const Group& group) {
  std::unique_ptr<Communicator>& slot = comms_[{group.key(), group.name()}];
  if (!slot) slot = std::make_unique<Communicator>(group);
  last_ = slot.get();
  return *slot;
}

const Communicator& CallMatcher::comm_of(const SubmittedCall& submitted) const {
  const Group& group = submitted.terms->collective.group;
  if (last_ != nullptr && last_->group().is_copy_of(group)) return *last_;
  return *comms_.at({group.key(), group.name()});
}

void CallMatcher::report(Finding finding) { findings_.push_back(std::move(finding)); }

Duration CallMatcher::price(const Collective& collective) const {
  return cost_->collective(collective, whole_bytes_of(collective));
}

int32_t CallMatcher::peer_rank(const Communicator& comm, const SubmittedCall& submitted,
                               int64_t lane) const {
  return comm.rank_of(comm.member_place(submitted.lanes[lane]).sibling, submitted.peer(lane));
}

Duration CallMatcher::arrival(const SubmittedCall& submitted, int64_t lane) const {
  const Submission& submission = *submitted.submission;
  return submission.start[submission.lane_of(submitted.lanes[lane])];
}

// --- admission and numbers
// ------------------------------------------------------------------------

bool CallMatcher::drop_non_members(Call& call) {
  const Communicator& members = comm(call.collective.group);
  if (members.lanes().contains(call.lanes)) return false;
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
  return true;
}

void CallMatcher::number(SubmittedCall& submitted) {
  Communicator& members = comm(submitted.terms->collective.group);
  const CollectiveKind kind = submitted.terms->collective.kind;
  if (!is_point_to_point(kind)) {
    submitted.number = members.next_numbers(submitted.lanes);
    return;
  }
  if (kind != CollectiveKind::send && kind != CollectiveKind::recv) return;
  const bool sends = kind == CollectiveKind::send;
  const int64_t lanes = submitted.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int32_t self = submitted.lanes[i];
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
  run_whole(call.collective, call.lanes, call.input, call.output);
  if (times != nullptr) pass_times(members, call.collective, call.lanes, cohort, *times);
  return true;
}

void CallMatcher::run_whole(const Collective& collective, const Lanes& lanes,
                            const LocalTensor* input, LocalTensor* output) {
  if (output == nullptr || output->empty()) return;
  SP_CHECK(input != nullptr, "{} has no input", to_string(collective));
  if (!has_contents_everywhere(*input)) return;
  if (input->blocks().size() == 1 && input->blocks()[0].lanes == lanes) {
    deliver(reference(collective, *input), *output);
  } else {
    deliver(reference(collective, input->restrict_to(lanes)), *output);
  }
}

void CallMatcher::pass_times(const Communicator& comm, const Collective& collective,
                             const Lanes& lanes, const Lanes& cohort, LaneTimes& times) const {
  const Duration cost = price(collective);
  if (times.uniform() && lanes == cohort) {
    times.set_all(times[0] + cost);
    return;
  }
  std::vector<Duration> ready(static_cast<size_t>(comm.group().count()));
  for (int64_t i = 0; i < lanes.size(); ++i) {
    Duration& at = ready[static_cast<size_t>(comm.member_place(lanes[i]).sibling)];
    at = std::max(at, times[cohort.index_of(lanes[i])]);
  }
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const size_t sibling = static_cast<size_t>(comm.member_place(lanes[i]).sibling);
    times.at(cohort.index_of(lanes[i]), cohort.size()) = ready[sibling] + cost;
  }
  times.collapse();
}

// --- submissions
// --------------------------------------------------------------------------------------

void CallMatcher::start(Submission& submission) {
  submission.started = true;
  if (cost_) submission.end = submission.start;
  submission.open = static_cast<int32_t>(submission.calls.size());
  for (SubmittedCall& submitted : submission.calls)
    submitted.open = static_cast<int32_t>(submitted.lanes.size());
  if (cost_ && submission.calls.size() > 1) add_up_messages(submission);
  // Starts all calls even if one is found wrong: findings must not depend on which came first.
  for (SubmittedCall& submitted : submission.calls) {
    if (submitted.open == 0) {
      end_call(submitted);
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
  Communicator& members = comm(submitted.terms->collective.group);
  switch (submitted.terms->collective.kind) {
    case CollectiveKind::send:
    case CollectiveKind::recv: pair_up(members, submitted); break;
    case CollectiveKind::put:
    case CollectiveKind::signal:
    case CollectiveKind::wait_signal: execute_one_sided(members, submitted); break;
    default: join(members, submitted);
  }
}

void CallMatcher::end_call(SubmittedCall& submitted) {
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
    const int64_t lanes = submission.lanes->size();
    const int64_t at = lanes == 1 ? 0 : submission.lanes->index_of(submitted.lanes[lane]);
    Duration& time = submission.end.at(at, lanes);
    time = std::max(time, end);
  }
  if (--submitted.open == 0) end_call(submitted);
}

void CallMatcher::fail(SubmittedCall& submitted) {
  Submission& submission = *submitted.submission;
  submission.failed = true;
  if (submission.ended) return;
  submission.ended = true;
  ended_.push_back(&submission);
}

}  // namespace shardproof
