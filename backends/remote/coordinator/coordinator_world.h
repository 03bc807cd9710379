// The coordinator's world: no hosts, but all that they announce. Internal to the remote layer.
#pragma once

#include <deque>
#include <set>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/coordinator/pending_groups.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/sim/analysis/deadlock.h"

namespace shardproof {

class JudgingWorld : public World, public Assembly, private GateWitness {
 public:
  JudgingWorld(Coordinator& crew, const WorldOptions& options);
  ~JudgingWorld() override;
  Door& open(const Lanes& cohort) override;
  bool progress() override;
  WorldReport close() override;
  Assembly* assembly() override { return this; }

  Lanes here() const override { return {}; }
  void publish(Publication, int64_t, const LocalTensor&) override {}
  void publish(const std::vector<Record>&) override {}
  void read(Reader reader) override { reader_ = std::move(reader); }
  Conclusion conclude(Conclusion own) override;

 private:
  using Clock = CrewMember::Clock;
  enum class Phase : uint8_t { running, idle, concluding, closing };
  // One worker in this world.
  struct Host {
    Phase phase = Phase::running;
    WireBook book;
    std::vector<Door*> doors;
    std::vector<Ticket> tickets;  // by the worker's number
    int64_t sent = 0;
    std::deque<std::shared_ptr<const GateEvent>> under_way;  // the last ones of `sent`
  };
  struct Origin {
    int process = 0;
    Ticket ticket = kDone;  // the worker's number
  };

  void met(const Meeting& meeting) override;
  void paired(const Channel::End& sender, const Channel::End& receiver) override;
  void acted(const Party& party, int64_t lane, int32_t peer) override;

  void hear(int process, WireReader& in);
  void hear_of_door(Announce kind, int process, WireReader& in);
  void hear_submit(int process, Door& door, WireReader& in);
  void hear_launch(int process, Door& door, WireReader& in);
  void hear_value(Publication kind, WireReader& in);
  void hear_measured(WireReader& in);
  void hear_of_progress(Announce kind, int process, WireReader& in);
  Ticket& ticket_of(int process, Ticket ticket);
  void remember(int process, Ticket own, Ticket theirs);

  void take_in(std::chrono::milliseconds time);
  void listen();
  void send_events();
  // What waits for the rest of its group goes without it; false when nothing does.
  bool break_groups();
  void send_event(const std::shared_ptr<const GateEvent>& event);
  void send_together(const GroupBook::Together& events);
  void form_teams(const GateEvent& event);
  // Where in its target's window a put goes; -1: there is no room.
  int64_t window_offset(const GateEvent& event);
  int64_t free_place(int64_t bytes, int64_t all) const;
  // What each process that is in it is told.
  using Orders = std::map<int, WireWriter>;
  Orders orders_of(const GateEvent& event);
  Orders orders_to_parts(const GateEvent& event);
  Orders orders_to_ends(const GateEvent& event);
  void order(int process, const WireWriter& message, std::shared_ptr<const GateEvent> event);
  bool tell_failures();
  bool quiet();
  bool all_are(Phase phase) const;
  void watch();
  std::optional<Loss> unending_exchange() const;
  void wait_for_survivors();
  std::vector<Finding> findings_of_loss(std::vector<Finding> known);
  std::vector<const GateEvent*> orders_of_loss() const;
  std::vector<Finding> calls_under_way();
  std::string last_flight() const;
  bool awaits_loss(const GateEvent& event, int process) const;
  void describe_waiting(const GateEvent& event, const std::set<int>& processes,
                        Standstill& still) const;

  Coordinator& crew_;
  WorldOptions options_;
  RankBlocks blocks_;
  std::unique_ptr<World> physics_;
  std::vector<Host> hosts_;
  std::vector<Origin> origins_;  // by the coordinator's ticket
  std::vector<std::pair<Ticket, Door*>> open_;
  std::deque<GateEvent> events_;
  GroupBook groups_;
  Reader reader_;
  std::vector<Record> measured_;
  std::vector<std::pair<int, Conclusion>> conclusions_;
  int64_t numbers_ = 0;
  struct Landing {
    int64_t offset, end;
    int process;    // where it lands
    int64_t order;  // of those it has been sent
  };
  std::deque<Landing> landings_;  // that are under way
  std::optional<Loss> loss_;
  Clock::time_point moved_ = crew_.now(), looked_ = Clock::now();
  bool closed_ = false;
};

}  // namespace shardproof
