// ForwardingContext: an execution context that forwards every call to another one. Decorators
// (recorder, faults) derive from it; they work on every backend because they use only the contract.
#pragma once

#include <memory>
#include <utility>

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

class ForwardingContext : public ExecutionContext {
 public:
  explicit ForwardingContext(ExecutionContext& inner) : inner_(inner) {}
  StreamId stream(std::string_view name) override { return inner_.stream(name); }
  Ticket submit(std::span<Call> calls, StreamId stream) override {
    return inner_.submit(calls, stream);
  }
  Ticket launch(Work work) override { return inner_.launch(std::move(work)); }
  void allocate(const Allocation& allocation) override { inner_.allocate(allocation); }
  void release(const Allocation& allocation) override { inner_.release(allocation); }
  void order(StreamId stream, Ticket ticket) override { inner_.order(stream, ticket); }
  Ticket last(StreamId stream) override { return inner_.last(stream); }
  void host_wait(Ticket ticket) override { inner_.host_wait(ticket); }
  TicketState poll(Ticket ticket) override { return inner_.poll(ticket); }
  CohortState state() override { return inner_.state(); }
  void finish() override { inner_.finish(); }
  std::optional<TicketTimes> times(Ticket ticket) override { return inner_.times(ticket); }
  void read_slot(int64_t slot, LocalTensor& output) override { inner_.read_slot(slot, output); }
  std::shared_ptr<Device> device() override { return inner_.device(); }
  void provide(const LocalTensor& value) override { inner_.provide(value); }
  void discard(const LocalTensor& value) override { inner_.discard(value); }
  void elapse(Duration time) override { inner_.elapse(time); }
  void stop(CohortState state) override { inner_.stop(state); }

 protected:
  ExecutionContext& inner() { return inner_; }

 private:
  ExecutionContext& inner_;
};

}  // namespace shardproof
