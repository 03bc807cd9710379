// The world of a worker. Internal to the remote layer.
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
  void take_off(Submission& submission);
  void end_part(SubmittedCall& submitted);
  void land(Submission& submission);

  // Carries out what has come; false when nothing had.
  bool pump(std::chrono::microseconds time);
  void pump_now_and_then();
  bool carry_out(std::string_view message);
  // An order that moves contents, alone or in a group.
  void take_part(CoordinatorCommand kind, WireReader& in);
  void take_parts(WireReader& in);
  void end_without_contents(const CallShare& part);
  Duration now() const;  // since this process began the world
  void begin_order();
  void end_order(const std::vector<Place>& places);
  void perform(const Work& work, Ticket ticket, Place place);

  DeviceTimes& times_at(int endpoint);
  // On the device work ends after it was launched, and its ticket with it.
  TicketState state_of(Ticket ticket) const;
  bool look_at_device();
  bool at_rest() const { return moving_.empty() && launched_.all_ended(); }
  void wait_on_device(std::chrono::nanoseconds waited);
  static Place place_of(const CallShare& part);
  int enter(const std::vector<CallShare>& parts);
  // The stream of the part waits for what was put here so far.
  void come_behind_landings(const CallShare& part);
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
  void tell(WorkerMessage kind);

  WorkerLink& link_;
  RankBlocks blocks_;
  bool defers_, timed_, measures_;
  Clock::time_point began_;
  DeviceWorkQueue launched_;
  std::deque<DeviceTimes> device_times_;  // of each endpoint here
  WireDictionary book_;
  TicketTable tickets_;
  std::deque<WorkerContext> contexts_;
  std::map<Ticket, std::unique_ptr<Submission>> submissions_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;
  std::deque<Place> ready_;
  std::vector<ExchangeOperation> moving_;  // started together
  std::map<std::string, bool> alike_;      // by group: its siblings lie over endpoints as it does
  Clock::time_point eager_until_;          // the exchange is tested without a pause
  Clock::time_point told_at_;
  std::optional<Activity> before_wait_;  // for a device, while there is one
  std::deque<std::string> orders_;       // that came while something moved
  Ticket landings_ = kDone;              // of puts, so far: they have tickets of their own
  int64_t told_ = -1, submitted_ = 0;
  bool running_ = false, still_ = false, concluded_ = false, reported_ = false;
  HostResult conclusion_;
  WorldReport report_;
};

}  // namespace shardproof
