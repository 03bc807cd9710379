// Repeating where all ranks lie in this process: at a door of a world of their own.
#include <chrono>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/bench/exact_inputs.h"

namespace shardproof {
namespace {

class AtDoor {
 public:
  AtDoor(Launcher& launcher, const Repetition& repetition)
      : c_(repetition.collective), lanes_(Lanes::range(0, c_.group.size())) {
    WorldOptions options;
    options.ranks = lanes_.size();
    world_ = launcher.start(options);
    door_ = &world_->open(lanes_);
    tensors_ = crafted_tensors(repetition, lanes_);
  }

  void once() {
    std::vector<Call> calls;
    if (c_.kind == CollectiveKind::send) {
      for (const CollectiveKind kind : {CollectiveKind::send, CollectiveKind::recv})
        calls.push_back(one_end(kind));
    } else {
      calls.push_back(call(c_.kind));
      calls.back().input = &tensors_.input;
      if (!tensors_.output.empty()) calls.back().output = &tensors_.output;
    }
    const Ticket ticket = door_->submit(calls, kMainStream);
    while (door_->poll(ticket) == TicketState::pending)
      SP_CHECK(world_->progress(), "{} does not end", to_string(c_));
  }

  int64_t count_wrong() const { return shardproof::count_wrong(c_, tensors_.output); }

 private:
  Call call(CollectiveKind kind) const {
    Call call;
    call.collective = c_;
    call.collective.kind = kind;
    call.lanes = lanes_;
    return call;
  }
  Call one_end(CollectiveKind kind) {
    const bool sends = kind == CollectiveKind::send;
    Call end = call(kind);
    for (int64_t rank = 0; rank < lanes_.size(); ++rank)
      end.peers.push_back((rank + (sends ? 1 : lanes_.size() - 1)) % lanes_.size());
    if (sends)
      end.input = &tensors_.input;
    else
      end.output = &tensors_.output;
    return end;
  }

  const Collective& c_;
  Lanes lanes_;
  std::unique_ptr<World> world_;
  Door* door_ = nullptr;
  RepeatedTensors tensors_;
};

Repeated repeat_at_door(Launcher& launcher, const Repetition& repetition) {
  using Clock = std::chrono::steady_clock;
  Repeated result;
  {
    AtDoor door(launcher, repetition);
    for (int i = 0; i < repetition.warmup; ++i) door.once();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repetition.times; ++i) door.once();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count() / repetition.times;
  }
  if (repetition.checking == Checking::none) return result;
  AtDoor door(launcher, repetition);
  door.once();
  result.wrong = door.count_wrong();
  return result;
}

}  // namespace

Repeated repeat(Launcher& launcher, const Repetition& repetition) {
  Crew* const crew = launcher.crew();
  if (crew == nullptr) return repeat_at_door(launcher, repetition);
  return repeat_exchange(crew->transport(), repetition);
}

}  // namespace shardproof
