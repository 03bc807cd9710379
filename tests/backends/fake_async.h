// A backend that behaves like a device: nothing runs at issue; tickets end late and, across
// streams, out of order; a submission may fail. Tests hosts and the conformance suite itself.
#pragma once

#include <deque>
#include <map>

#include "shardproof/backends/decorators/forwarding_context.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

struct FakeAsyncOptions {
  uint64_t seed = 1;
  int64_t latest = 5;           // maximum number of progress steps until an end is visible
  int64_t fail_submission = 0;  // number of the submission of the world that fails; 0: none
};

struct FakeAsyncClock {
  FakeAsyncOptions options;
  int64_t now = 0, last_reveal = 0, submissions = 0;
  bool closed = false;  // after the end of the world nothing is late
};

class FakeAsyncContext : public ForwardingContext {
 public:
  FakeAsyncContext(ExecutionContext& inner, FakeAsyncClock& clock, int64_t index)
      : ForwardingContext(inner),
        clock_(clock),
        rng_(clock.options.seed, static_cast<uint64_t>(index)) {}

  Ticket submit(std::span<Call> calls, StreamId stream) override {
    const Ticket ticket = track(inner().submit(calls, stream), stream);
    if (++clock_.submissions == clock_.options.fail_submission) failed_ = ticket;
    return ticket;
  }
  Ticket launch(Work work) override {
    const StreamId stream = work.stream;
    return track(inner().launch(std::move(work)), stream);
  }

  // An end is visible after its delay, and after all earlier ends of its stream.
  TicketState poll(Ticket ticket) override {
    if (ticket == kDone) return TicketState::done;
    const TicketState real = inner().poll(ticket);
    if (real == TicketState::pending) return real;
    const auto known = tickets_.find(ticket);
    if (known == tickets_.end()) return real;
    if (clock_.closed) return ticket == failed_ ? TicketState::failed : real;
    Reveal& reveal = known->second;
    if (reveal.at < 0) {
      int64_t& earliest = stream_reveals_[reveal.stream];
      const int64_t late = rng_.integer(draws_++, 1, clock_.options.latest + 1);
      reveal.at = earliest = std::max(earliest, clock_.now + late);
      clock_.last_reveal = std::max(clock_.last_reveal, reveal.at);
    }
    if (clock_.now < reveal.at) return TicketState::pending;
    return ticket == failed_ ? TicketState::failed : real;
  }

 private:
  struct Reveal {
    StreamId stream = 0;
    int64_t at = -1;
  };
  Ticket track(Ticket ticket, StreamId stream) {
    if (ticket != kDone) tickets_[ticket].stream = stream;
    return ticket;
  }

  FakeAsyncClock& clock_;
  Rng rng_;
  uint64_t draws_ = 0;
  Ticket failed_ = -1;
  std::map<Ticket, Reveal> tickets_;
  std::map<StreamId, int64_t> stream_reveals_;
};

class FakeAsyncWorld : public World {
 public:
  FakeAsyncWorld(WorldOptions options, FakeAsyncOptions fake) : clock_{fake, 0, 0, 0, false} {
    if (options.schedule.kind == ScheduleKind::fifo)
      options.schedule = {ScheduleKind::seeded, fake.seed};
    inner_ = local_world(options);
  }
  ExecutionContext& open(const Lanes& cohort) override {
    return contexts_.emplace_back(inner_->open(cohort), clock_,
                                  static_cast<int64_t>(contexts_.size()));
  }
  bool progress() override {
    ++clock_.now;
    return inner_->progress() || clock_.now <= clock_.last_reveal;
  }
  WorldReport close() override {
    clock_.closed = true;
    return inner_->close();
  }

 private:
  FakeAsyncClock clock_;
  std::unique_ptr<World> inner_;
  std::deque<FakeAsyncContext> contexts_;
};

}  // namespace shardproof
