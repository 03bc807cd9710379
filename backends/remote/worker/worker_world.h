// WorkerWorld: the world in a worker. It opens an execution context for each cohort of its ranks,
// receives the coordinator's commands, and carries them out one after another. Internal to
// backends/remote.
//
// A command that moves contents fills moving_, starts the exchanges of the transport, and ends when
// they are done (host) or launched (device). Further commands wait in orders_. One thread. Its
// sources: worker_world.cpp (life, streams, commands, device, end), worker_world_exchanges.cpp
// (collectives, messages, puts), coordinator_world_communicators.cpp (communicators, windows).
#pragma once

#include <deque>
#include <map>

#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/backends/remote/worker/device_times.h"
#include "shardproof/backends/remote/worker/device_work_queue.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/backends/remote/worker/worker_context.h"
#include "shardproof/sim/call/clock.h"

namespace shardproof {

class WorkerWorld : public World, public Assembly {
 public:
  WorkerWorld(WorkerLink& link, const WorldOptions& options);
  ~WorkerWorld() override;
  ExecutionContext& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  Assembly* assembly() override { return this; }

  Lanes here() const override;
  std::vector<Lanes> here_by_device() const override;
  void publish(ValueEvent kind, int64_t value, const LocalTensor& contents) override;
  void publish(const std::vector<Record>& measured) override;
  void read(Reader) override {}
  HostResult conclude(HostResult own) override;

 private:
  friend class WorkerContext;
  using Place = TicketTable::Place;
  using Clock = std::chrono::steady_clock;
  WorkerContext& context(int32_t index) { return contexts_[static_cast<size_t>(index)]; }
  void announce(const WireWriter& message) { link_.pipe().send(message); }
  void list(Place place);
  void wake();
  void settle();
  bool run_head(Place place);
  void start_submission(Submission& submission);
  void end_part(SubmittedCall& submitted);
  void land(Submission& submission);

  // Receives and carries out commands. Returns false if nothing was done within `time`.
  bool pump(std::chrono::microseconds time);
  void pump_now_and_then();
  bool carry_out(std::string_view message);
  // A command that moves contents, alone or in a group.
  void run_part_command(CoordinatorCommand kind, WireReader& in);
  void run_group_command(WireReader& in);
  void end_without_contents(const CallShare& part);
  Duration now() const;  // since the world was started in this process
  void begin_order();
  void end_order(const std::vector<Place>& places);
  void perform(const Work& work, Ticket ticket, Place place);

  DeviceTimes& times_at(int endpoint);
  // On a device, a ticket ends later than its launch: when the device has reached its event.
  TicketState state_of(Ticket ticket) const;
  bool look_at_device();
  bool at_rest() const { return moving_.empty() && launched_.all_ended(); }
  void wait_on_device(std::chrono::nanoseconds waited);
  static Place place_of(const CallShare& part);
  int enter(const std::vector<CallShare>& parts);
  // Makes the stream of the part wait for the puts that have landed here so far.
  void wait_for_landed_puts(const CallShare& part);
  bool has_moved();
  void run_work(Ticket ticket);
  void form(WireReader& in);
  void open_window(WireReader& in);
  bool is_alike(const Group& group);
  void meet(WireReader& in);
  void pair(WireReader& in);
  void put(WireReader& in);
  void put_here(const CallShare& source, std::pair<int64_t, int64_t> window);
  void send(const CallShare& part, Exchange exchange);
  void receive(const CallShare& part, Exchange exchange);
  Place landing_at(int endpoint) const;
  void fail_ticket(Ticket ticket);
  CallShare read_part(WireReader& in);
  void start_moving();
  void finish_moving();
  void finish(ExchangeOperation& moved);
  void ask_for_estimates();
  void wait_until(const std::function<bool()>& condition);
  void wait_for_order(Clock::time_point quiet_since);
  void report_progress(WorkerMessage kind);

  WorkerLink& link_;
  RankBlocks blocks_;
  bool defers_, timed_, measures_;
  Clock::time_point began_;
  DeviceWorkQueue launched_;
  std::deque<DeviceTimes> device_times_;  // one for each endpoint of this process
  WireDictionary book_;
  TicketTable tickets_;
  std::deque<WorkerContext> contexts_;
  std::map<Ticket, std::unique_ptr<Submission>> submissions_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;
  std::deque<Place> ready_;
  std::vector<ExchangeOperation> moving_;  // exchanges of the command being carried out
  std::map<std::string, bool> alike_;      // is_uniform_over_endpoints() by key of the group
  Clock::time_point eager_until_;          // until then the exchange is polled without a pause
  Clock::time_point reported_at_;
  std::optional<HeartbeatActivity>
      before_wait_;                 // activity before the host began to wait for a device
  std::deque<std::string> orders_;  // commands that came during an exchange
  Ticket landings_ = kDone;         // tickets of puts that landed here, counted by themselves
  int64_t reported_ended_ = -1, submitted_ = 0;  // commands reported as ended; submissions
  bool running_ = false, still_ = false, concluded_ = false, reported_ = false;
  HostResult conclusion_;
  WorldReport report_;
};

}  // namespace shardproof
