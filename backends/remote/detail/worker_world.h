// The world and the doors of a worker. Internal to the remote layer.
#pragma once

#include <deque>
#include <map>

#include "shardproof/backends/remote/detail/moving.h"
#include "shardproof/backends/remote/worker.h"
#include "shardproof/sim/clock.h"
#include "shardproof/sim/stream.h"

namespace shardproof {

class WorkerWorld;
class WorkerDoor : public Door {
 public:
  WorkerDoor(WorkerWorld& world, int32_t index, Lanes lanes);
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
  void read_slot(int64_t slot, LocalTensor& output) override;
  std::optional<TicketTimes> times(Ticket ticket) override;
  void elapse(Duration time) override;
  void stop(CohortState state) override;

 private:
  friend class WorkerWorld;
  bool goes_on() const { return state_ == CohortState::running && !failed_; }
  Stream& at(StreamId stream) { return streams_[static_cast<size_t>(stream)]; }
  bool runs_at_issue(Stream& stream) const;
  WireWriter announcement(Announce kind) const;
  Ticket refuse();
  Ticket open_ticket(StreamId stream);
  void push(StreamId stream, Ticket ticket, std::variant<Work, Flight*, Ticket> what);
  void announce(const Allocation& allocation, Announce kind);
  void keep(Flight& flight, std::span<Call> calls);
  void fail();

  WorkerWorld& world_;
  int32_t index_;
  Lanes lanes_;
  std::deque<Stream> streams_;
  CohortState state_ = CohortState::running;
  bool failed_ = false;
};

class WorkerWorld : public World, public Assembly {
 public:
  WorkerWorld(WorkerLink& link, const WorldOptions& options);
  Door& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  Assembly* assembly() override { return this; }

  Lanes here() const override;
  void publish(Publication kind, int64_t value, const LocalTensor& contents) override;
  void publish(const std::vector<Record>& measured) override;
  void read(Reader) override {}
  Conclusion conclude(Conclusion own) override;

 private:
  friend class WorkerDoor;
  WorkerDoor& door(int32_t index) { return doors_[static_cast<size_t>(index)]; }
  void announce(const WireWriter& message) { link_.pipe().send(message); }
  void list(TicketBook::Place place);
  void wake();
  void settle();
  bool run_head(TicketBook::Place place);
  void take_off(Flight& flight);
  void end_part(Party& party);
  void land(Flight& flight);

  // Carries out what has come; false when nothing had.
  bool pump(std::chrono::microseconds time);
  void pump_now_and_then();
  bool carry_out(std::string_view message);
  Duration now() const;  // since this process began the world
  void perform(const Work& work, Ticket ticket);
  void run_work(Ticket ticket);
  void form(WireReader& in);
  void meet(WireReader& in);
  void pair(WireReader& in);
  void put(WireReader& in);
  void fail_ticket(Ticket ticket);
  CallPart read_part(WireReader& in);
  void move(Moving moving);
  void finish_moving();
  void wait_until(bool WorkerWorld::*condition);
  void wait_for_order();
  void tell(Announce kind);

  WorkerLink& link_;
  RankBlocks blocks_;
  bool defers_, timed_, measures_;
  std::chrono::steady_clock::time_point began_;
  WireBook book_;
  TicketBook tickets_;
  std::deque<WorkerDoor> doors_;
  std::map<Ticket, std::unique_ptr<Flight>> flights_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;
  std::deque<TicketBook::Place> ready_;
  std::unique_ptr<Moving> moving_;
  std::chrono::steady_clock::time_point eager_until_;  // the exchange is tested without a pause
  std::deque<std::string> orders_;                     // that came while something moved
  int64_t executed_ = 0, told_ = -1, submitted_ = 0;
  bool running_ = false, still_ = false, concluded_ = false, reported_ = false;
  Conclusion conclusion_;
  WorldReport report_;
};

}  // namespace shardproof
