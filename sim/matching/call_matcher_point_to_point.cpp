#include <algorithm>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/call_matcher.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

void Gate::pair_up(Communicator& comm, Party& party) {
  const bool sends = party.call.collective.kind == CollectiveKind::send;
  const int64_t lanes = party.call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t self = party.call.lanes[i];
    const int64_t peer = peer_rank(comm, party, i);
    Channel& channel = sends ? comm.channel(self, peer) : comm.channel(peer, self);
    const Channel::End end{party.number[i], &party, static_cast<int32_t>(i)};
    std::vector<Channel::End>& others = sends ? channel.receivers : channel.senders;
    const auto other = std::find_if(others.begin(), others.end(),
                                    [&](const Channel::End& o) { return o.number == end.number; });
    if (other == others.end()) {
      (sends ? channel.senders : channel.receivers).push_back(end);
      continue;
    }
    const Channel::End partner = *other;
    others.erase(other);
    transfer(comm, sends ? end : partner, sends ? partner : end);
  }
}

void Gate::transfer(const Communicator& comm, const Channel::End& sender,
                    const Channel::End& receiver) {
  const std::string group;
  if (std::optional<Finding> finding = find_mismatch(sender, receiver, group)) {
    report(*find_mismatch(sender, receiver, comm.text(comm.seat(sender.rank()).sibling)));
    fail(*sender.party);
    fail(*receiver.party);
    return;
  }
  if (witness_ != nullptr) witness_->paired(sender, receiver);
  if (brings_contents(*sender.party)) {
    deliver(*receiver.party, receiver.rank(), brought_data(*sender.party, sender.rank()),
            brought_bytes(*sender.party, sender.rank()));
  }
  Duration end;
  if (cost_) {
    end = std::max(arrival(*sender.party, sender.lane), arrival(*receiver.party, receiver.lane)) +
          price(sender.party->call);
  }
  end_part(*sender.party, sender.lane, end);
  end_part(*receiver.party, receiver.lane, end);
}

// --- one-sided
// ------------------------------------------------------------------------------------

void Gate::act_one_sided(Communicator& comm, Party& party) {
  const Collective& collective = party.call.collective;
  const int64_t lanes = party.call.lanes.size();
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t self = party.call.lanes[i];
    const int64_t peer = peer_rank(comm, party, i);
    if (collective.kind == CollectiveKind::wait_signal) {
      Signals& signals = signals_[{self, peer, collective.slot}];
      signals.waiting.push_back({0, &party, static_cast<int32_t>(i)});
      settle(signals);
      continue;
    }
    if (witness_ != nullptr) witness_->acted(party, i, peer);
    if (collective.kind == CollectiveKind::put) store(party, self, peer);
    Duration end;
    if (cost_) end = arrival(party, i) + price(party.call);
    Signals& signals = signals_[{peer, self, collective.slot}];
    // Whoever was simulated first, the earliest is waited for first.
    signals.landed.insert(std::upper_bound(signals.landed.begin(), signals.landed.end(), end), end);
    end_part(party, i, end);
    settle(signals);
  }
}

void Gate::store(const Party& party, int64_t self, int64_t target) {
  const std::byte* data = brought_data(party, self);
  if (data == nullptr) return;
  Bytes contents = Bytes::uninitialized(brought_bytes(party, self));
  std::copy(data, data + contents.size(), contents.mutate());
  windows_[{target, party.call.collective.slot}] = std::move(contents);
}

// Waits are served in the order in which they started.
void Gate::settle(Signals& signals) {
  while (!signals.waiting.empty()) {
    const Channel::End waiting = signals.waiting.front();
    const auto needed = static_cast<size_t>(waiting.party->call.collective.repeat);
    if (signals.landed.size() < needed) return;
    Duration end;
    if (cost_) end = arrival(*waiting.party, waiting.lane);
    for (size_t i = 0; i < needed; ++i) end = std::max(end, signals.landed[i]);
    signals.landed.erase(signals.landed.begin(),
                         signals.landed.begin() + static_cast<std::ptrdiff_t>(needed));
    signals.waiting.erase(signals.waiting.begin());
    if (witness_ != nullptr) witness_->acted(*waiting.party, waiting.lane, -1);
    end_part(*waiting.party, waiting.lane, end);
  }
}

const Bytes* Gate::window(int64_t rank, int64_t slot) const {
  const auto it = windows_.find({rank, slot});
  return it == windows_.end() ? nullptr : &it->second;
}

}  // namespace shardproof
