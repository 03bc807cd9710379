// CoordinatorWorld: the world in the coordinator. It runs no hosts. It repeats the actions of the
// hosts of all workers on a local world without contents. The call matcher, clock and memory meter
// of that world give the same verdicts as a simulation. Internal to backends/remote.
//
// State: hosts_ holds the workers and their phases. events_, groups_ and under_way hold the matched
// calls that are sent to workers; pending_puts_ the places of puts in windows; loss_ a lost worker.
// One thread. Its sources: coordinator_world.cpp (life of the world), coordinator_world_receive.cpp
// (messages of workers), coordinator_world_schedule.cpp (commands to workers),
// coordinator_world_communicators.cpp (communicators, windows), coordinator_world_loss.cpp
// (findings about a lost worker).
#pragma once

#include <deque>
#include <set>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/coordinator/pending_groups.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/sim/analysis/deadlock.h"

namespace shardproof {

class CoordinatorWorld : public World, public WorldProcesses, private MatchObserver {
 public:
  CoordinatorWorld(Coordinator& pool, const WorldOptions& options);
  ~CoordinatorWorld() override;
  ExecutionContext& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  WorldProcesses* processes() override { return this; }

  bool is_coordinator() const override { return true; }
  Lanes local_ranks() const override { return {}; }
  void publish(ValueEvent, int64_t, const LocalTensor&) override {}
  void publish(const std::vector<Record>&) override {}
  void read(Reader reader) override { reader_ = std::move(reader); }
  HostResult conclude(HostResult own) override;
  std::vector<BenchmarkResult> repeat(const Repetitions& repetitions) override;

 private:
  using Clock = WorkerHandle::Clock;
  enum class Phase : uint8_t { running, idle, concluding, closing };
  // One worker, in this world.
  struct Host {
    Phase phase = Phase::running;
    WireDictionary dictionary;
    std::vector<ExecutionContext*>
        contexts;                 // contexts of the local world, by the worker's index of cohort
    std::vector<Ticket> tickets;  // the coordinator's ticket, by the worker's
    int64_t sent = 0;             // commands sent in this world
    std::deque<std::shared_ptr<const MatchedCall>> under_way;  // the last ones sent, not completed
    // If the world is repeated: all commands sent, which are those of each repetition.
    std::vector<std::shared_ptr<const MatchedCall>> sequence;
    size_t published = 0;  // lists of measured records received
  };
  struct Origin {
    int process = 0;
    Ticket ticket = kDone;  // in the numbering of that worker
  };

  void on_collective(const CollectiveInstance& instance) override;
  void on_send_recv(const Channel::End& sender, const Channel::End& receiver) override;
  void on_one_sided(const SubmittedCall& submitted, int64_t lane, int32_t peer) override;

  void handle_message(int process, WireReader& in);
  void handle_context_message(WorkerMessage kind, int process, WireReader& in);
  void handle_submit(int process, ExecutionContext& context, WireReader& in);
  void handle_launch(int process, ExecutionContext& context, WireReader& in);
  void handle_value(ValueEvent kind, WireReader& in);
  void handle_measured(int process, WireReader& in);
  void handle_progress(WorkerMessage kind, int process, WireReader& in);
  Ticket& ticket_of(int process, Ticket ticket);
  void link_tickets(int process, Ticket own, Ticket theirs);

  void receive_messages(std::chrono::milliseconds time);
  void listen();
  void send_events();
  // Sends the held calls of groups one by one. Returns false if none is held.
  bool send_pending_groups();
  void send_event(const std::shared_ptr<const MatchedCall>& event);
  void send_together(const PendingGroups::Together& events);
  void make_communicators(const MatchedCall& event);
  // Returns the byte offset of a put in its target's window; -1 if the window has no room.
  int64_t window_offset(const MatchedCall& event);
  int64_t free_place(int64_t bytes, int64_t all) const;
  // The command for each process that takes part.
  using Commands = std::map<int, WireWriter>;
  Commands commands_of(const MatchedCall& event);
  Commands commands_to_parts(const MatchedCall& event);
  Commands commands_to_ends(const MatchedCall& event);
  void send_command(int process, const WireWriter& message,
                    std::shared_ptr<const MatchedCall> event);
  bool send_failures();
  bool quiet();
  bool all_are(Phase phase) const;
  void watch();
  std::optional<WorkerLoss> unending_exchange() const;
  // Both handle a loss in a repetition: restore `under_way` from what heartbeats and the monitor
  // have reported, and state where the process was.
  void locate_in_repetitions();
  bool has_moved_in_repetitions();
  ProgressState progress_of(size_t process) const;
  bool ended_without_report() const;
  void run_survivors();
  std::vector<Finding> findings_of_loss(std::vector<Finding> known);
  std::vector<const MatchedCall*> commands_of_loss() const;
  std::vector<Finding> calls_under_way();
  std::string last_progress() const;
  bool awaits_loss(const MatchedCall& event, int process) const;
  void describe_waiting(const MatchedCall& event, const std::set<int>& processes,
                        WaitForGraph& graph) const;

  Coordinator& pool_;
  WorldOptions options_;
  RankBlocks blocks_;
  std::unique_ptr<World> local_world_;
  std::vector<Host> hosts_;
  std::vector<Origin> origins_;  // by the coordinator's ticket
  std::vector<std::pair<Ticket, ExecutionContext*>>
      open_;  // submissions that have neither ended nor failed
  std::deque<MatchedCall> events_;
  PendingGroups groups_;
  Reader reader_;
  std::vector<std::vector<Record>> measured_;
  bool repeating_ = false;
  std::vector<std::pair<int, BenchmarkResult>> repeated_;  // by process
  int64_t commands_ended_ = 0;  // in repetitions, by all processes, as heartbeats reported
  int64_t repetition_ = 0;      // in which the lost process was, from 1; 0: none
  std::vector<std::pair<int, HostResult>> conclusions_;
  int64_t numbers_ = 0;  // last number given to a message or put
  struct PendingPut {
    int64_t offset, end;
    int process;      // the process of the target
    int64_t command;  // number, among those sent to it, of the command that takes the put out
  };
  std::deque<PendingPut> pending_puts_;  // puts whose room in the window is not free yet
  std::optional<WorkerLoss> loss_;
  // moved_: last message of a worker, active time. looked_: last search for a lost worker.
  Clock::time_point moved_ = pool_.now(), looked_ = Clock::now();
  bool closed_ = false;
};

}  // namespace shardproof
