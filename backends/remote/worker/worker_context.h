// WorkerContext: the execution context of one cohort in a worker. It has the cohort's streams, runs
// local work, and reports the actions of the host to the coordinator. Internal to backends/remote.
//
// One thread. WorkerWorld owns it and shares its private state as a friend.
#pragma once

#include <deque>

#include "shardproof/backends/remote/wire/messages.h"
#include "shardproof/sim/call/stream.h"

namespace shardproof {

class WorkerWorld;
class WorkerContext : public ExecutionContext {
 public:
  WorkerContext(WorkerWorld& world, int32_t index, int endpoint, Lanes lanes);
  StreamId stream(std::string_view name) override;
  Ticket submit(std::span<Call> calls, StreamId stream) override;
  Ticket launch(Work work) override;
  void allocate(const Allocation& allocation) override;
  void release(const Allocation& allocation) override;
  void order(StreamId stream, Ticket ticket) override;
  Ticket last(StreamId stream) override { return at(stream).last; }
  void host_wait(Ticket ticket) override;
  TicketState poll(Ticket ticket) override;
  CohortState state() override { return state_; }
  std::shared_ptr<Device> device() override;
  void finish() override;
  void provide(const LocalTensor& value) override;
  void discard(const LocalTensor& value) override;
  void read_slot(int64_t slot, LocalTensor& output) override;
  std::optional<TicketTimes> times(Ticket ticket) override;
  void elapse(Duration time) override;
  void stop(CohortState state) override;

 private:
  friend class WorkerWorld;
  bool is_running() const { return state_ == CohortState::running; }
  Stream& at(StreamId stream) { return streams_[static_cast<size_t>(stream)]; }
  bool runs_at_issue(Stream& stream) const;
  WireWriter announcement(WorkerMessage kind) const;
  Ticket refuse();
  Ticket open_ticket(StreamId stream);
  void push(StreamId stream, Ticket ticket, std::variant<Work, Submission*, Ticket> what);
  void announce(const Allocation& allocation, WorkerMessage kind);
  void queue_calls(Submission& submission, std::span<Call> calls);

  WorkerWorld& world_;
  int32_t index_;
  int endpoint_;  // the endpoint on which its lanes lie
  Lanes lanes_;
  std::deque<Stream> streams_;
  CohortState state_ = CohortState::running;
};

}  // namespace shardproof
