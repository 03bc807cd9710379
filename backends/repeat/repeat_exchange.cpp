// Repeating in real processes: each does its own part over the transport.
#include <chrono>
#include <deque>

#include "shardproof/backends/remote/detail/moving.h"
#include "shardproof/backends/repeat/detail/crafted.h"
#include "shardproof/sim/deliver.h"

namespace shardproof {
namespace {

// The ranks that lie here, each with a call of its own.
class OwnParts {
 public:
  OwnParts(Transport& transport, const Repetition& repetition)
      : transport_(transport),
        c_(repetition.collective),
        blocks_(c_.group.size(), transport.processes()) {
    const Lanes here = blocks_.of(transport.self());
    for (int64_t i = 0; i < here.size(); ++i) add(repetition, here[i]);
  }

  void once() {
    if (c_.kind == CollectiveKind::send) return pass_on();
    if (parts_.empty()) return;
    Moving moving;
    moving.parts = parts_;
    moving.members = c_.group.members(0);
    if (!start_meeting(moving, blocks_, transport_)) return;
    carry(moving.exchange);
    finish_meeting(moving, transport_.self());
  }

  void meet() {
    Exchange barrier;
    for (int process = 0; process < transport_.processes(); ++process)
      barrier.team.push_back(process);
    carry(barrier);
  }

  int64_t count_wrong() const {
    int64_t wrong = 0;
    for (const RepeatedTensors& tensors : tensors_)
      wrong += shardproof::count_wrong(c_, tensors.output);
    return wrong;
  }

 private:
  void add(const Repetition& repetition, int64_t rank) {
    RepeatedTensors& tensors = tensors_.emplace_back(crafted_tensors(repetition, Lanes::one(rank)));
    Flight& flight = flights_.emplace_back();
    flight.parties.resize(1);
    Party& party = flight.parties.front();
    party.flight = &flight;
    party.call.collective = c_;
    party.call.lanes = Lanes::one(rank);
    party.call.input = &tensors.input;
    if (!tensors.output.empty()) party.call.output = &tensors.output;
    keep_views(party);
    parts_.push_back({&party, 0, rank});
  }

  void carry(const Exchange& exchange) {
    transport_.start(exchange);
    while (!transport_.done()) {
    }
  }

  // Even ranks send first, so that pairs of processes are busy at the same time.
  void pass_on() {
    ++round_;
    for (const int64_t parity : {0, 1})
      for (int64_t from = parity; from < c_.group.size(); from += 2)
        pass(part_of(from), part_of((from + 1) % c_.group.size()), from);
  }

  const CallPart* part_of(int64_t rank) const {
    for (const CallPart& part : parts_)
      if (part.rank() == rank) return &part;
    return nullptr;
  }

  void pass(const CallPart* sender, const CallPart* taker, int64_t from) {
    if (sender == nullptr && taker == nullptr) return;
    const int64_t to = (from + 1) % c_.group.size();
    if (sender != nullptr && taker != nullptr) {
      const Brought own = brought(*sender);
      return deliver(*taker->party, taker->rank(), own.data, own.size);
    }
    const int other = blocks_.process_of(sender != nullptr ? to : from);
    Moving moving;
    moving.exchange =
        message_exchange(sender != nullptr ? CollectiveKind::send : CollectiveKind::recv,
                         transport_.self(), other, round_ * c_.group.size() + from);
    moving.exchange.count = c_.count * size_of(c_.dtype);
    if (sender != nullptr)
      send_piece(moving, *sender, transport_.memory());
    else
      receive_bytes(moving, moving.exchange.count, transport_.memory());
    carry(moving.exchange);
    if (taker != nullptr) deliver(*taker->party, taker->rank(), moving.in);
  }

  Transport& transport_;
  const Collective& c_;
  RankBlocks blocks_;
  std::deque<RepeatedTensors> tensors_;
  std::deque<Flight> flights_;
  std::vector<CallPart> parts_;
  int64_t round_ = 0;
};

}  // namespace

Repeated repeat_exchange(Transport& transport, const Repetition& repetition) {
  using Clock = std::chrono::steady_clock;
  Repeated result;
  {
    OwnParts parts(transport, repetition);
    for (int i = 0; i < repetition.warmup; ++i) parts.once();
    parts.meet();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repetition.times; ++i) parts.once();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count() / repetition.times;
  }
  if (repetition.checking == Checking::none) return result;
  OwnParts parts(transport, repetition);
  parts.once();
  result.wrong = parts.count_wrong();
  return result;
}

}  // namespace shardproof
