// Coordinator: the process of a run that executes no ranks. It starts the workers and receives the
// actions of their hosts. It matches their calls on a local world without contents
// (CoordinatorWorld) and sends each worker the calls that it may carry out.
//
// Invariant: all workers receive their commands in one global order, so no exchange waits for a
// later one. Example: commands A (workers 0, 1), B (1, 2), C (0, 2). Worker 0 receives A, C and
// worker 2 receives B, C. A cycle of waits would need a worker that receives C before A or B.
//
// Liveness. A worker is lost if its pipe or its monitor's pipe closes. It is also lost after
// `timeout_seconds` of active time without a message; workers send a heartbeat every 250 ms. A case
// hangs if nothing arrives for that time while no worker computes. After a loss,
// terminate_workers() ends all processes.
//
// Threading: one thread. Owns its starter and the records of its workers; a world that start()
// returns must end before its coordinator. The functions of WorkerPool for workers (next,
// done) are internal errors here.
#pragma once

#include <chrono>
#include <functional>
#include <set>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/coordinator/worker_handle.h"
#include "shardproof/backends/remote/process/active_time_clock.h"
#include "shardproof/backends/remote/process/starter.h"
#include "shardproof/backends/remote/rendezvous/listen_address.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {

class Coordinator : public WorkerPool {
 public:
  Coordinator(WorkerPoolOptions options, std::unique_ptr<Starter> starter);
  // Commands all workers to exit and waits for their end; kills those that do not end in time.
  ~Coordinator() override;

  void gather() override;
  void begin(int64_t index) override;
  void end() override;
  std::optional<int64_t> next() override;
  void done(const std::string& error) override;

  // Starts a world over the present workers. Throws Error(io) if they have been ended.
  std::unique_ptr<World> start(const WorldOptions& options);

  // The worlds of this coordinator call the functions below.
  std::vector<WorkerHandle>& members() { return members_; }
  int processes() const { return options_.processes; }
  int endpoints_each() const { return options_.gpus_per_process; }
  // Handles the messages that have arrived; waits up to `time` for the first one. Handles
  // heartbeats, errors of transports and leaving itself, and passes all other messages to
  // `handle_message`.
  using MessageHandler = std::function<void(int process, WireReader& message)>;
  void listen(std::chrono::milliseconds time, const MessageHandler& handle_message);
  // Returns the first worker that has ended, or that was silent for too long.
  std::optional<WorkerLoss> find_lost_worker();
  // Returns the active time by which all timeouts are measured.
  WorkerHandle::Clock::time_point now() { return clock_.now(); }
  // True if more than `timeout_seconds` of active time have passed since then.
  bool timed_out(WorkerHandle::Clock::time_point since);
  // Returns the transport errors that workers have reported, one line each.
  std::vector<std::string> transport_errors() const;
  // Returns transport errors that no lost process explains. Empty until a lost process has had time
  // to be noticed.
  std::optional<std::string> unattributed_transport_error();
  // Returns those of `teams` for which the transport has to make a communicator, and marks them as
  // made. Teams of one endpoint or of all endpoints need none.
  std::vector<std::vector<int>> register_new_teams(std::vector<std::vector<int>> teams);
  void send(int process, const WireWriter& message);  // without flush; listen() flushes
  // On the first call, commands all workers to open windows of `bytes` bytes for puts.
  void open_windows(int64_t bytes);
  // The way in which puts move contents, as worker 0 reported it; empty if no window was opened.
  std::string window_words;
  std::string output() { return starter_->output(); }
  // Ends all processes, after a loss. The next case starts new ones if this program started them.
  void terminate_workers();

 private:
  static constexpr std::chrono::milliseconds kListenTime{50};  // longest wait for one message

  void shut_down_workers();
  void start_workers();
  void abandon(ListenAddress& place);
  void handshake(ListenAddress& place);
  std::chrono::milliseconds start_time() const;
  void connect_workers();
  void handle_handshake(int process, WireReader& message);
  std::optional<WorkerLoss> first_loss(WorkerHandle::Clock::time_point since);
  [[noreturn]] void throw_not_started(const WorkerLoss& loss);
  void accept_worker(std::unique_ptr<MessagePipe> connection, std::string_view message);
  bool all_present() const;
  WorkerLoss first_absent() const;
  void receive_from_monitors();
  void handle_one(size_t process, std::string_view message, const MessageHandler& handle_message);
  std::string exit_description(int process);
  WorkerLoss lost(int process, std::string words);

  WorkerPoolOptions options_;
  std::unique_ptr<Starter> starter_;
  ActiveTimeClock clock_;
  std::vector<WorkerHandle> members_;
  // Connections to monitors that mpirun or a shell has started: they end when these close.
  std::vector<std::unique_ptr<MessagePipe>> released_;
  std::string over_;        // last loss or transport error, of this case or an earlier one
  std::string invitation_;  // data that all transports need to connect; empty: none
  std::set<std::vector<int>> teams_;  // teams that have a communicator; {}: windows are open
};

}  // namespace shardproof
