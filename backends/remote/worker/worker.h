// WorkerLink: the connection of a worker to its coordinator. A worker is one of the processes that
// run the hosts of ranks. Its contexts hold streams and move contents. It reports the actions of
// its hosts to the coordinator, and executes the coordinator's commands one after another.
//
// One link exists for all worlds of a run. A thread of its own sends a heartbeat every 250 ms and
// ends the process at once if the coordinator has exited. All functions belong to the thread that
// made the link.
#pragma once

#include <atomic>
#include <thread>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/exchange/rank_blocks.h"
#include "shardproof/backends/remote/exchange/transport.h"
#include "shardproof/backends/remote/process/progress_page.h"
#include "shardproof/backends/remote/wire/message_pipe.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {

// The functions of WorkerPool for the coordinator (gather, begin, end) are internal errors
// here.
class WorkerLink : public WorkerPool {
 public:
  // Connects to `options.join` and connects the transport to those of the other workers. Throws
  // Error if this process cannot take part; the coordinator has then received the reason.
  WorkerLink(const WorkerPoolOptions& options, std::unique_ptr<Transport> transport);
  ~WorkerLink() override;

  MessagePipe& pipe() { return *pipe_; }
  ProgressPage& progress() { return progress_ == nullptr ? own_progress_ : *progress_; }
  // Sets the activity of this process: computing, or waiting. Beats carry it to the coordinator.
  void set_activity(HeartbeatActivity activity) {
    activity_.store(activity, std::memory_order_relaxed);
  }
  HeartbeatActivity activity() const { return activity_; }
  // Returns the next command; nullopt if none arrived within `time`. Throws Error(io) if the
  // coordinator has left the case.
  std::optional<std::string> receive(std::chrono::microseconds time);
  // Waits for a command of this kind; any other kind is an internal error.
  std::string await(CoordinatorCommand kind);

  void gather() override;
  void begin(int64_t) override;
  void end() override;
  std::optional<int64_t> next() override;
  void done(const std::string& error) override;
  Transport& transport() { return *transport_; }

 private:
  void connect_processes(const WorkerPoolOptions& options);
  void heartbeat();
  [[noreturn]] void leave();

  std::unique_ptr<MessagePipe> pipe_;
  std::unique_ptr<Transport> transport_;
  ProgressPage own_progress_;  // used if no monitor shares a page
  ProgressPage* progress_;
  std::atomic<HeartbeatActivity> activity_{HeartbeatActivity::computes};
  std::atomic<bool> stopping_{false}, leaving_{false};
  bool left_ = false;  // the coordinator left the case before this process did
  std::thread heartbeat_;
};

// Starts a world in this worker, with the faults that the options name. Throws Error(bad_input) for
// a fault of a rank that the world does not have. `link` must outlive the world.
std::unique_ptr<World> worker_world(WorkerLink& link, const WorldOptions& options);

}  // namespace shardproof
