// Implements messages and one-sided calls of call_matcher.h.
//
// A send and a receive match by their number in the channel between two ranks. If calls are issued
// together, a rank sends one after another and receives one after another. A message ends when all
// of its sender's are sent and all of its receiver's are received. A put or signal ends at once and
// leaves a signal; a wait takes as many signals as it needs, the earliest first.
#include <algorithm>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/call_matcher.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

void CallMatcher::pair_up(Communicator& comm, SubmittedCall& submitted) {
  const CollectiveKind kind = submitted.terms->collective.kind;
  const bool sends = kind == CollectiveKind::send;
  const int64_t lanes = submitted.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int32_t self = submitted.lanes[i];
    const int32_t peer = peer_rank(comm, submitted, i);
    const Channel::End end{submitted.number[i], &submitted, static_cast<int32_t>(i)};
    const std::optional<Channel::End> partner =
        comm.pair(kind, sends ? self : peer, sends ? peer : self, end);
    if (partner) transfer(comm, sends ? end : *partner, sends ? *partner : end);
  }
}

void CallMatcher::add_up_messages(Submission& submission) const {
  submission.sending = submission.receiving = LaneTimes();
  const int64_t lanes = submission.lanes->size();
  for (const SubmittedCall& message : submission.calls) {
    const CollectiveKind kind = message.terms->collective.kind;
    if (kind != CollectiveKind::send && kind != CollectiveKind::recv) continue;
    LaneTimes& times = kind == CollectiveKind::send ? submission.sending : submission.receiving;
    const Duration time = price(message.terms->collective);
    for (int64_t i = 0; i < message.lanes.size(); ++i)
      times.at(submission.lane_of(message.lanes[i]), lanes) += time;
  }
}

// Returns when a message ends; see the top of this file.
Duration CallMatcher::end_of_messages(const Channel::End& sender,
                                      const Channel::End& receiver) const {
  const auto time_of = [&](const Channel::End& end, const LaneTimes& times) {
    const Submission& submission = *end.submitted->submission;
    if (submission.calls.size() == 1) return price(end.submitted->terms->collective);
    return times[submission.lane_of(end.submitted->lanes[end.lane])];
  };
  const Duration longest = std::max(time_of(sender, sender.submitted->submission->sending),
                                    time_of(receiver, receiver.submitted->submission->receiving));
  return std::max(arrival(*sender.submitted, sender.lane),
                  arrival(*receiver.submitted, receiver.lane)) +
         longest;
}

void CallMatcher::transfer(const Communicator& comm, const Channel::End& sender,
                           const Channel::End& receiver) {
  if (!fits_message(sender, receiver)) {
    report(*find_mismatch(sender, receiver, comm.text(comm.member_place(sender.rank()).sibling)));
    fail(*sender.submitted);
    fail(*receiver.submitted);
    return;
  }
  if (observer_ != nullptr) observer_->on_send_recv(sender, receiver);
  if (has_input_contents(*sender.submitted)) {
    deliver(*receiver.submitted, receiver.rank(), input_data(*sender.submitted, sender.rank()),
            input_bytes(*sender.submitted, sender.rank()));
  }
  Duration end;
  if (cost_) {
    end = end_of_messages(sender, receiver);
  }
  end_part(*sender.submitted, sender.lane, end);
  end_part(*receiver.submitted, receiver.lane, end);
}

// --- one-sided
// ------------------------------------------------------------------------------------

void CallMatcher::execute_one_sided(Communicator& comm, SubmittedCall& submitted) {
  const Collective& collective = submitted.terms->collective;
  const int64_t lanes = submitted.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t self = submitted.lanes[i];
    const int64_t peer = peer_rank(comm, submitted, i);
    if (collective.kind == CollectiveKind::wait_signal) {
      Signals& signals = signals_[{self, peer, collective.slot}];
      signals.waiting.push_back({0, &submitted, static_cast<int32_t>(i)});
      settle(signals);
      continue;
    }
    if (observer_ != nullptr) observer_->on_one_sided(submitted, i, peer);
    if (collective.kind == CollectiveKind::put) store(submitted, self, peer);
    Duration end;
    if (cost_) end = arrival(submitted, i) + price(submitted.terms->collective);
    Signals& signals = signals_[{peer, self, collective.slot}];
    // Sorted by time: the result must not depend on the order of simulation.
    signals.landed.insert(std::upper_bound(signals.landed.begin(), signals.landed.end(), end), end);
    end_part(submitted, i, end);
    settle(signals);
  }
}

void CallMatcher::store(const SubmittedCall& submitted, int64_t self, int64_t target) {
  const std::byte* data = input_data(submitted, self);
  if (data == nullptr) return;
  Bytes contents = Bytes::uninitialized(input_bytes(submitted, self));
  std::copy(data, data + contents.size(), contents.mutate());
  windows_[{target, submitted.terms->collective.slot}] = std::move(contents);
}

// Ends waits in the order in which they started.
void CallMatcher::settle(Signals& signals) {
  while (!signals.waiting.empty()) {
    const Channel::End waiting = signals.waiting.front();
    const auto needed = static_cast<size_t>(waiting.submitted->terms->collective.repeat);
    if (signals.landed.size() < needed) return;
    Duration end;
    if (cost_) end = arrival(*waiting.submitted, waiting.lane);
    for (size_t i = 0; i < needed; ++i) end = std::max(end, signals.landed[i]);
    signals.landed.erase(signals.landed.begin(),
                         signals.landed.begin() + static_cast<std::ptrdiff_t>(needed));
    signals.waiting.erase(signals.waiting.begin());
    if (observer_ != nullptr) observer_->on_one_sided(*waiting.submitted, waiting.lane, -1);
    end_part(*waiting.submitted, waiting.lane, end);
  }
}

const Bytes* CallMatcher::window(int64_t rank, int64_t slot) const {
  const auto it = windows_.find({rank, slot});
  return it == windows_.end() ? nullptr : &it->second;
}

}  // namespace shardproof
