// The coordinator's world: no hosts, but all that they announce. Internal to the remote layer.
#pragma once

#include <deque>
#include <set>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/coordinator/pending_groups.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/sim/analysis/deadlock.h"

namespace shardproof {

class CoordinatorWorld : public World, public Assembly, private MatchObserver {
 public:
  CoordinatorWorld(Coordinator& pool, const WorldOptions& options);
  ~CoordinatorWorld() override;
  ExecutionContext& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  Assembly* assembly() override { return this; }

  Lanes here() const override { return {}; }
  void publish(ValueEvent, int64_t, const LocalTensor&) override {}
  void publish(const std::vector<Record>&) override {}
  void read(Reader reader) override { reader_ = std::move(reader); }
  HostResult conclude(HostResult own) override;

 private:
  using Clock = WorkerHandle::Clock;
  enum class Phase : uint8_t { running, idle, concluding, closing };
  // One worker in this world.
  struct Host {
    Phase phase = Phase::running;
    WireDictionary book;
    std::vector<ExecutionContext*> contexts;
    std::vector<Ticket> tickets;  // by the worker's number
    int64_t sent = 0;
    std::deque<std::shared_ptr<const MatchedCall>> under_way;  // the last ones of `sent`
  };
  struct Origin {
    int process = 0;
    Ticket ticket = kDone;  // the worker's number
  };

  void on_collective(const CollectiveInstance& meeting) override;
  void on_send_recv(const Channel::End& sender, const Channel::End& receiver) override;
  void on_one_sided(const SubmittedCall& submitted, int64_t lane, int32_t peer) override;

  void handle_message(int process, WireReader& in);
  void handle_context_message(WorkerMessage kind, int process, WireReader& in);
  void handle_submit(int process, ExecutionContext& context, WireReader& in);
  void hear_launch(int process, ExecutionContext& context, WireReader& in);
  void hear_value(ValueEvent kind, WireReader& in);
  void hear_measured(WireReader& in);
  void hear_of_progress(WorkerMessage kind, int process, WireReader& in);
  Ticket& ticket_of(int process, Ticket ticket);
  void remember(int process, Ticket own, Ticket theirs);

  void take_in(std::chrono::milliseconds time);
  void listen();
  void send_events();
  // What waits for the rest of its group goes without it; false when nothing does.
  bool break_groups();
  void send_event(const std::shared_ptr<const MatchedCall>& event);
  void send_together(const PendingGroups::Together& events);
  void form_teams(const MatchedCall& event);
  // Where in its target's window a put goes; -1: there is no room.
  int64_t window_offset(const MatchedCall& event);
  int64_t free_place(int64_t bytes, int64_t all) const;
  // What each process that is in it is told.
  using Orders = std::map<int, WireWriter>;
  Orders orders_of(const MatchedCall& event);
  Orders orders_to_parts(const MatchedCall& event);
  Orders orders_to_ends(const MatchedCall& event);
  void order(int process, const WireWriter& message, std::shared_ptr<const MatchedCall> event);
  bool tell_failures();
  bool quiet();
  bool all_are(Phase phase) const;
  void watch();
  std::optional<WorkerLoss> unending_exchange() const;
  void wait_for_survivors();
  std::vector<Finding> findings_of_loss(std::vector<Finding> known);
  std::vector<const MatchedCall*> orders_of_loss() const;
  std::vector<Finding> calls_under_way();
  std::string last_progress() const;
  bool awaits_loss(const MatchedCall& event, int process) const;
  void describe_waiting(const MatchedCall& event, const std::set<int>& processes,
                        WaitGraph& still) const;

  Coordinator& pool_;
  WorldOptions options_;
  RankBlocks blocks_;
  std::unique_ptr<World> physics_;
  std::vector<Host> hosts_;
  std::vector<Origin> origins_;  // by the coordinator's ticket
  std::vector<std::pair<Ticket, ExecutionContext*>> open_;
  std::deque<MatchedCall> events_;
  PendingGroups groups_;
  Reader reader_;
  std::vector<Record> measured_;
  std::vector<std::pair<int, HostResult>> conclusions_;
  int64_t numbers_ = 0;
  struct PendingPut {
    int64_t offset, end;
    int process;    // where it lands
    int64_t order;  // of those it has been sent
  };
  std::deque<PendingPut> landings_;  // that are under way
  std::optional<WorkerLoss> loss_;
  Clock::time_point moved_ = pool_.now(), looked_ = Clock::now();
  bool closed_ = false;
};

}  // namespace shardproof
