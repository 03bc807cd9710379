// The local world and its doors. A door keeps the streams of its cohort, the world lets them run:
// at issue (fifo), or when no host can go on (seeded, adversarial). Internal to the local backend.
#pragma once

#include <deque>

#include "shardproof/backends/local/local_backend.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/sim/call/stream.h"
#include "shardproof/sim/cost/memory_meter.h"
#include "shardproof/sim/matching/call_matcher.h"

namespace shardproof {

class LocalWorld;

class LocalDoor : public Door {
 public:
  LocalDoor(LocalWorld& world, int32_t index, Lanes lanes);

  StreamId stream(std::string_view name) override;
  Ticket submit(std::span<Call> calls, StreamId stream) override;
  Ticket launch(Work work) override;
  void allocate(const Allocation& allocation) override;
  void release(const Allocation& allocation) override;
  void order(StreamId stream, Ticket ticket) override;
  Ticket last(StreamId stream) override;
  void host_wait(Ticket ticket) override;
  TicketState poll(Ticket ticket) override;
  CohortState state() override { return state_; }
  void finish() override { finished_ = true; }
  std::optional<TicketTimes> times(Ticket ticket) override;
  void read_slot(int64_t slot, LocalTensor& output) override;
  std::shared_ptr<Device> device() override;
  void elapse(Duration time) override;
  void stop(CohortState state) override;

 private:
  friend class LocalWorld;
  friend struct StandstillSurvey;
  bool goes_on() const { return state_ == CohortState::running; }
  Stream& at(StreamId stream) {
    return stream == kMainStream ? main_ : *others_[static_cast<size_t>(stream - 1)];
  }
  const Stream& at(StreamId stream) const {
    return stream == kMainStream ? main_ : *others_[static_cast<size_t>(stream - 1)];
  }
  StreamId stream_count() const { return static_cast<StreamId>(others_.size() + 1); }
  bool runs_at_issue(const Stream& stream) const;
  Ticket refuse();
  Ticket open_ticket(StreamId stream);
  void push(StreamId stream, Ticket ticket, std::variant<Work, Flight*, Ticket> what);
  void observe_host_waits();
  void pass_work(Stream& stream, const Work& work, const LaneTimes& issued, Ticket ticket);
  std::optional<Ticket> pass(Call& call, StreamId stream);
  bool admit(std::span<Call> calls);
  void take_off(Flight& flight);
  bool is_stuck() const;
  LaneTimes through() const;

  // In order of use: doors are many, and a call touches only the first lines of its own.
  LocalWorld& world_;
  int32_t index_;
  CohortState state_ = CohortState::running;
  bool finished_ = false;
  Lanes lanes_;
  LaneTimes host_time_;
  std::vector<Ticket> host_waits_;  // asked for before their end was known
  Stream main_;
  std::vector<std::unique_ptr<Stream>> others_;
  MemoryMeter memory_;
};

class LocalWorld : public World {
 public:
  LocalWorld(const WorldOptions& options, GateWitness* witness);
  Door& open(const Lanes& cohort) override;
  bool progress() override;
  std::optional<std::vector<int32_t>> take_woken() override;
  WorldReport close() override;

  bool timed() const { return cost_ != nullptr; }
  const CostModel& cost() const { return *cost_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  bool defers() const { return picker_.defers(); }
  Gate& gate() { return gate_; }
  TicketBook& book() { return book_; }
  Flight& new_flight();
  // A stream has an item that may run.
  void list(TicketBook::Place place);
  // Everything that follows from what the gate has just done.
  void settle();

 private:
  friend struct StandstillSurvey;
  LocalDoor& door(int32_t index) { return doors_[static_cast<size_t>(index)]; }
  void land(Flight& flight);
  void wake();
  // Runs the head of a stream. False when it had to wait.
  bool run_head(TicketBook::Place place);
  void run_stream(TicketBook::Place place);
  bool step();
  std::vector<Finding> explain_standstill();
  void report_times(WorldReport& report);
  void report_memory(WorldReport& report);

  int64_t ranks_;
  std::shared_ptr<const CostModel> cost_;
  std::shared_ptr<Device> device_;
  StreamPicker picker_;
  Gate gate_;
  TicketBook book_;
  PooledDeque<LocalDoor> doors_;
  PooledDeque<Flight> flights_;
  std::vector<Flight*> free_flights_;
  std::deque<TicketBook::Place> ready_;
  std::function<PlannedCalls()> planned_;
  bool running_ = false;
};

}  // namespace shardproof
