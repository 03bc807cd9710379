// The world and the doors of a worker. Internal to the remote layer.
#pragma once

#include <deque>
#include <map>

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
  void finish() override;
  void read_slot(int64_t slot, LocalTensor& output) override;
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

// One lane's part of a call that an order names.
struct CallPart {
  Party* party = nullptr;
  int64_t lane = 0;
  int64_t member = 0;  // index in the group; of collectives
  int32_t rank() const { return party->call.lanes[lane]; }
};

// A collective, message or put between its start and its end, on the contents of lanes here.
struct Moving {
  std::vector<CallPart> parts;  // in group order
  std::vector<int32_t> members;
  std::vector<std::vector<int64_t>> held;  // member indices of each process of the team
  Exchange exchange;
  Bytes out, in;
  bool message = false;           // a send, a receive or a put
  int64_t target = -1, slot = 0;  // of a put that lands here
};
// Packs what the parts bring; false when no other process has a part, and all is done already.
bool start_collective(Moving& moving, const RankBlocks& blocks, int self);
void finish_collective(Moving& moving, int self);
// What a part brings, dense; poison where nothing has been written yet.
struct Brought {
  Bytes owner;
  const std::byte* data = nullptr;  // null when it brings nothing
  int64_t size = 0;                 // bytes
};
Brought brought(const CallPart& part);

class WorkerWorld : public World, public Assembly {
 public:
  WorkerWorld(WorkerLink& link, const WorldOptions& options);
  Door& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  Assembly* assembly() override { return this; }

  Lanes here() const override;
  void publish(Publication kind, int64_t value, const LocalTensor& contents) override;
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
  bool carry_out(std::string_view message);
  void run_work(Ticket ticket);
  void meet(WireReader& in);
  void pair(WireReader& in);
  void put(WireReader& in);
  void fail_ticket(Ticket ticket);
  CallPart read_part(WireReader& in);
  void move(Moving moving);
  void finish_moving();
  void wait_until(const bool& condition);
  void wait_for_order(int tests);
  void tell(Announce kind);

  WorkerLink& link_;
  RankBlocks blocks_;
  bool defers_, timed_;
  WireBook book_;
  TicketBook tickets_;
  std::deque<WorkerDoor> doors_;
  std::map<Ticket, std::unique_ptr<Flight>> flights_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;
  std::deque<TicketBook::Place> ready_;
  std::unique_ptr<Moving> moving_;
  std::deque<std::string> orders_;  // that came while something moved
  int64_t executed_ = 0, told_ = -1;
  bool running_ = false, still_ = false, concluded_ = false, reported_ = false;
  Conclusion conclusion_;
  WorldReport report_;
};

}  // namespace shardproof
