// WorkerWorld: the world in a worker. It opens an execution context for each cohort of its ranks,
// receives the coordinator's commands, and carries them out one after another. Internal to
// backends/remote.
//
// A command that moves contents fills moving_, starts the exchanges of the transport, and ends when
// they are done (host) or launched (device). Further commands wait in commands_. One thread. Its
// sources: worker_world.cpp (life, streams, commands, device, end), worker_world_exchanges.cpp
// (collectives, messages, puts), worker_world_repeat.cpp (repetitions), worker_world_graph.cpp
// (repetitions as one CUDA graph), coordinator_world_communicators.cpp (communicators, windows).
#pragma once

#include <deque>
#include <map>

#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/backends/remote/worker/call_sequence.h"
#include "shardproof/backends/remote/worker/device_times.h"
#include "shardproof/backends/remote/worker/device_work_queue.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/backends/remote/worker/worker_context.h"
#include "shardproof/sim/call/ticket_table.h"

namespace shardproof {

class WorkerWorld : public World, public WorldProcesses {
 public:
  WorkerWorld(WorkerLink& link, const WorldOptions& options);
  ~WorkerWorld() override;
  ExecutionContext& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  WorldProcesses* processes() override { return this; }

  bool is_coordinator() const override { return false; }
  Lanes local_ranks() const override;
  std::vector<Lanes> local_ranks_by_device() const override;
  void publish(ValueEvent kind, int64_t value, const LocalTensor& contents) override;
  void publish(const std::vector<Record>& measured) override;
  void read(Reader) override {}
  HostResult conclude(HostResult own) override;
  std::vector<BenchmarkResult> repeat(const Repetitions& repetitions) override;

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
  void end_submission(Submission& submission);

  // Receives and carries out commands. Returns false if nothing was done within `time`.
  bool run_commands(std::chrono::microseconds time);
  void run_received_commands();
  bool run_command(std::string_view message);
  // A command that moves contents, alone or in a group.
  void run_part_command(CoordinatorCommand kind, WireReader& in);
  void run_group_command(WireReader& in);
  void end_without_contents(const CallShare& part);
  Duration now() const;  // since the world was started in this process
  void begin_command();
  void end_command(const std::vector<Place>& places);
  void run_work(const Work& work, Ticket ticket, Place place);
  void run_body(const std::function<void()>& body, Ticket ticket, Place place);
  void follow(Place place, Ticket ticket);

  DeviceTimes& times_at(int endpoint);
  // On a device, a ticket ends later than its launch: when the device has reached its event.
  TicketState state_of(Ticket ticket) const;
  bool poll_device();
  bool is_idle() const { return moving_.empty() && launched_.all_ended(); }
  void wait_on_device(std::chrono::nanoseconds waited);
  static Place place_of(const CallShare& part);
  int enter(const std::vector<CallShare>& parts);
  // Makes the stream of the part wait for the puts that have landed here so far.
  void wait_for_landed_puts(const CallShare& part);
  bool has_moved();
  void run_work(Ticket ticket);
  void form(WireReader& in);
  void open_window(WireReader& in);
  bool is_uniform(const Group& group);
  void execute_collective(WireReader& in);
  void execute_message(WireReader& in);
  void execute_put(WireReader& in);
  void put_within_process(const CallShare& source, std::pair<int64_t, int64_t> window);
  void send(const CallShare& part, Exchange exchange);
  void receive(const CallShare& part, Exchange exchange);
  Place landed_puts_at(int endpoint) const;
  void fail_ticket(Ticket ticket);
  CallShare read_part(WireReader& in);
  void start_moving();
  void finish_moving();
  // Writes the results of exchanges that have moved. Returns the streams that they are in.
  std::vector<Place> write_results(std::vector<ExchangeOperation>& moved);
  void write_result(ExchangeOperation& moved);
  // Runs a part of a command that needs no other process, now and in each repetition.
  void run_locally(std::function<void()> part);
  void request_estimates();
  void wait_until(const std::function<bool()>& condition);
  void wait_for_command(Clock::time_point quiet_since);
  void report_progress(WorkerMessage kind);

  // Repetitions.
  struct TicketSpan {
    Duration start, end;  // both zero: not part of the sequence
    TimedBy clock = TimedBy::world;
    Duration expected;
  };
  using Iteration = std::vector<TicketSpan>;  // by ticket
  struct DeviceMark {
    Device* device = nullptr;
    int64_t event = 0;
  };
  void repeat_once();
  void repeat_step(CallSequence::Step& step);
  void repeat_exchanges(CallSequence::Step& step);
  void enter_stream(ExchangeOperation& moving);
  void end_step(const CallSequence::Step& step);
  void load(ExchangeOperation& moving);
  void run_barrier();
  void restore_inputs_at_barrier();
  void await_idle();
  void add_span(const CallSequence::Step& step, Duration start, Duration end);
  void read_device_times();
  void read_iterations(std::deque<Iteration>& counted, const std::function<void()>& measured);
  double time_each(const Repetitions& repetitions);
  BenchmarkResult time_together(const Repetitions& repetitions);
  // The only step with exchanges, if nothing else is repeated and all contents stay on devices.
  CallSequence::Step* step_on_devices();
  BenchmarkResult time_launches(CallSequence::Step& step, int iterations);
  bool stays_on_devices();
  BenchmarkResult repeat_in_mode(const Repetitions& repetitions, bool measured);
  // Repetitions as one CUDA graph: worker_world_graph.cpp.
  int64_t host_copies() const;
  // Runs an iteration. Returns why a graph cannot hold it; empty: it can.
  std::string why_not_captured();
  bool all_can_capture(bool own);
  void capture_iteration();
  double launch_graph(DeviceGraph& graph, const std::vector<CallSequence::InputCopy>& inputs);
  // Returns nullopt if a process cannot capture its iteration as a graph; `why_not` is then the
  // reason if it is this process.
  std::optional<BenchmarkResult> time_graph(const Repetitions& repetitions, std::string& why_not);
  Exchange exchange_of_all();
  static double seconds_between(const std::vector<DeviceMark>& first,
                                const std::vector<DeviceMark>& last);
  static bool are_reached(const std::vector<DeviceMark>& marks);
  std::vector<DeviceMark> mark_devices();
  int64_t commands_ended() const;
  std::optional<TicketTimes> repeated_times(Ticket ticket) const;

  WorkerLink& link_;
  RankBlocks blocks_;
  bool defers_, timed_, measures_;
  Clock::time_point began_;
  DeviceWorkQueue launched_;
  std::deque<DeviceTimes> device_times_;  // one for each endpoint of this process
  WireDictionary dictionary_;
  TicketTable tickets_;
  std::deque<WorkerContext> contexts_;
  std::map<Ticket, std::unique_ptr<Submission>> submissions_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;
  std::deque<Place> ready_;
  std::vector<ExchangeOperation> moving_;  // exchanges of the command being carried out
  std::map<std::string, bool> uniform_;    // is_uniform_over_endpoints() by key of the group
  Clock::time_point eager_until_;          // until then the exchange is polled without a pause
  Clock::time_point reported_at_;
  std::optional<HeartbeatActivity>
      before_wait_;                   // activity before the host began to wait for a device
  std::deque<std::string> commands_;  // commands that arrived during an exchange
  Ticket landed_puts_ = kDone;  // tickets of puts that landed here, which have a count of their own
  int64_t reported_ended_ = -1, submitted_ = 0;  // commands reported as ended; submissions
  std::unique_ptr<CallSequence> sequence_;       // null: the world is not repeated
  bool recording_ = false;
  std::optional<int64_t> ordered_;   // commands of the coordinator; nullopt: before repetitions
  Iteration spans_;                  // of the present repetition
  const Iteration* read_ = nullptr;  // times that contexts return; null: those of the first run
  bool running_ = false, stalled_ = false, concluded_ = false, reported_ = false;
  HostResult conclusion_;
  WorldReport report_;
};

}  // namespace shardproof
