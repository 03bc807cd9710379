// The coordinator: the process that runs no ranks, but the physics. It hears what the hosts of all
// workers do, lets the local world's gate match it, without contents, and orders the workers to
// carry out what may go on: in one order for all, so that no exchange can wait for a later one.
#pragma once

#include <chrono>
#include <functional>
#include <set>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/coordinator/worker_handle.h"
#include "shardproof/backends/remote/process/active_time_clock.h"
#include "shardproof/backends/remote/rendezvous/listen_address.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {

// Starts and ends the processes of a crew, as far as this program does.
class Starter {
 public:
  virtual ~Starter() = default;
  // They come to the address. Throws Error when they cannot be started.
  virtual void start(const std::string& address, int processes) = 0;
  // How the starter ended, in words that follow its name; nothing while it runs.
  virtual std::optional<std::string> ended() = 0;
  // What became of a process that has not come, as a keeper says it; empty: it lives, or who knows.
  virtual std::string state_of(int) { return {}; }
  // Takes what the processes have printed, for which they would wait in the end.
  virtual void drain() = 0;
  // What they have printed so far.
  virtual std::string output() = 0;
  // Ends whatever still runs, and waits until it is gone.
  virtual void stop() = 0;
};

class Coordinator : public WorkerPool {
 public:
  Coordinator(WorkerPoolOptions options, std::unique_ptr<Starter> starter);
  ~Coordinator() override;

  void gather() override;
  void begin(int64_t index) override;
  void end() override;
  std::optional<int64_t> next() override;
  void done(const std::string& trouble) override;
  std::vector<Repeated> told() override;
  void tell(const Repeated&) override;
  Transport& transport() override;

  std::unique_ptr<World> start(const WorldOptions& options);

  // For its worlds.
  std::vector<WorkerHandle>& members() { return members_; }
  int processes() const { return options_.processes; }
  int endpoints_each() const { return options_.gpus_per_process; }
  // Takes what has come, waiting at most so long for the first message; beats are kept here.
  using Hear = std::function<void(int process, WireReader& message)>;
  void listen(std::chrono::milliseconds time, const Hear& handle_message);
  // A member that has ended, is stopped, or says nothing any more.
  std::optional<WorkerLoss> find_loss();
  // Its own time, in which waiting is counted.
  WorkerHandle::Clock::time_point now() { return clock_.now(); }
  bool timed_out(WorkerHandle::Clock::time_point since);
  // What transports say that have lost others or the way to them, one line for each.
  std::vector<std::string> troubles() const;
  // The same when nobody turned out to be gone, who would be the reason; nothing until then.
  std::optional<std::string> unattributed_transport_error();
  // Teams that the transport has to form before they exchange something, once each.
  std::vector<std::vector<int>> new_teams(std::vector<std::vector<int>> teams);
  void send(int process, const WireWriter& message);
  // The first time: tells all processes to make room for what is put.
  void open_windows(int64_t bytes);
  // How what is put travels, as a process said; nothing was put: empty.
  std::string window_words;
  std::string output() { return starter_->output(); }
  // After a loss: ends all processes. The next case starts new ones.
  void terminate_workers();

 private:
  void shut_down_workers();
  void start_workers();
  void abandon(ListenAddress& place);
  void handshake(ListenAddress& place);
  std::chrono::milliseconds start_time() const;
  void connect_workers();
  void handle_handshake(int process, WireReader& message);
  std::optional<WorkerLoss> first_loss(WorkerHandle::Clock::time_point since);
  [[noreturn]] void throw_not_started(const WorkerLoss& loss);
  void accept_worker(std::unique_ptr<MessagePipe> guest, std::string_view message);
  bool all_present() const;
  WorkerLoss first_absent() const;
  void receive_from_monitors();
  void hear_one(size_t process, std::string_view message, const Hear& handle_message);
  std::string exit_description(int process);
  WorkerLoss lost(int process, std::string words);

  WorkerPoolOptions options_;
  std::unique_ptr<Starter> starter_;
  ActiveTimeClock clock_;
  std::vector<WorkerHandle> members_;
  std::vector<std::unique_ptr<MessagePipe>> released_;  // keepers that somebody else started
  std::string over_;  // what ended the processes of an earlier case, or does it to this one's
  std::string invitation_;
  std::set<std::vector<int>> teams_;  // that are formed
};

}  // namespace shardproof
