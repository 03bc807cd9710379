// A worker: one of the processes that run ranks' hosts. Its doors keep streams and move contents;
// which call may go on, the coordinator says. Everything the hosts do is announced, and the orders
// that come back are carried out one after another.
#pragma once

#include <atomic>
#include <thread>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/exchange/transport.h"
#include "shardproof/backends/remote/process/progress_page.h"
#include "shardproof/backends/remote/wire/message_pipe.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {

// Ranks lie on endpoints of processes (transport.h) in contiguous blocks, so many endpoints in each
// process; the first blocks are longer when it does not divide.
class RankBlocks {
 public:
  RankBlocks(int64_t ranks, int processes, int endpoints_each = 1)
      : ranks_(ranks), endpoints_(processes * endpoints_each), each_(endpoints_each) {}
  int64_t ranks() const { return ranks_; }
  Lanes of(int process) const {
    return Lanes::range(first(process * each_), first((process + 1) * each_));
  }
  Lanes of_endpoint(int endpoint) const {
    return Lanes::range(first(endpoint), first(endpoint + 1));
  }
  int process_of(int64_t rank) const { return endpoint_of(rank) / each_; }
  int endpoint_of(int64_t rank) const {
    const int64_t less = ranks_ / endpoints_, longer = ranks_ % endpoints_;
    const int64_t split = longer * (less + 1);
    return static_cast<int>(rank < split ? rank / (less + 1) : longer + (rank - split) / less);
  }

 private:
  int64_t first(int endpoint) const {
    const int64_t less = ranks_ / endpoints_, longer = ranks_ % endpoints_;
    return endpoint * less + std::min<int64_t>(endpoint, longer);
  }
  int64_t ranks_;
  int endpoints_, each_;
};

// What a worker holds over all worlds. While it lives, a thread tells the coordinator that this
// process lives, and ends the process when the coordinator is gone.
class WorkerLink : public WorkerPool {
 public:
  // Throws Error when this process is of no use there; the coordinator is told.
  WorkerLink(const WorkerPoolOptions& options, std::unique_ptr<Transport> transport);
  ~WorkerLink() override;

  MessagePipe& pipe() { return *pipe_; }
  ProgressPage& progress() { return progress_ == nullptr ? own_progress_ : *progress_; }
  // Whether this process computes, or waits: the coordinator is told now and then.
  void set_activity(Activity activity) { activity_ = activity; }
  Activity activity() const { return activity_; }
  // The next order, or nothing until `time` has passed. Throws Error(io) when the case is to be
  // left.
  std::optional<std::string> order(std::chrono::microseconds time);
  std::string await(CoordinatorCommand kind);  // one that must come

  void gather() override;
  void begin(int64_t) override;
  void end() override;
  std::optional<int64_t> next() override;
  void done(const std::string& trouble) override;
  std::vector<Repeated> told() override;
  void tell(const Repeated& repeated) override;
  Transport& transport() override { return *transport_; }

 private:
  void come_together(const WorkerPoolOptions& options);
  void beat();
  [[noreturn]] void leave();

  std::unique_ptr<MessagePipe> pipe_;
  std::unique_ptr<Transport> transport_;
  ProgressPage own_progress_;  // where there is no keeper to read it
  ProgressPage* progress_;
  std::atomic<Activity> activity_{Activity::computes};
  std::atomic<bool> stopping_{false}, leaving_{false};
  bool left_ = false;  // the coordinator left the case before this process did
  std::thread beat_;
};

// With the faults that the options name.
std::unique_ptr<World> worker_world(WorkerLink& link, const WorldOptions& options);

}  // namespace shardproof
