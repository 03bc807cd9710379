// Implements process_spawner.h: fork and exec, one child for each process.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "shardproof/backends/remote/process/descendant_processes.h"
#include "shardproof/backends/remote/process/process_spawner.h"
#include "shardproof/backends/remote/process/run_directory.h"
#include "shardproof/backends/remote/rendezvous/listen_address.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kChildExitTimeout{1000};  // from the coordinator's end to killing a child
constexpr milliseconds kKillTimeout{3000};

class ProcessSpawner : public Starter {
 public:
  explicit ProcessSpawner(const SpawnOptions& options) : options_(options) {}
  ~ProcessSpawner() override { stop(); }

  void start(const std::string& address, int processes) override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    address_ = address;
    output_.clear();
    folder_ = std::make_unique<RunDirectory>(RunDirectory::Needs());
    std::vector<std::string> words = folder_->worker_words(options_.pool);
    words.push_back(address);
    const WorkerPoolOptions& pool = options_.pool;
    const bool one_machine = pool.place && pool.place->address().starts_with("unix:");
    below_ = DescendantProcesses(one_machine ? ::getppid() : 0);
    for (int process = 0; process < (pool.place ? 1 : processes); ++process) {
      Environment more = options_.environment ? options_.environment(process) : Environment();
      more.emplace_back(kProcessVariable, fmt::format("{}", process));
      more.emplace_back(kProcessesVariable, fmt::format("{}", processes));
      more.emplace_back(kNumberOnMachineVariable,
                        fmt::format("{}", pool.place ? pool.number_on_machine : process));
      children_.push_back({start_child(words, more), {}});
    }
  }

  // Returns the first failure, or that all have ended.
  std::optional<std::string> ended() override {
    if (children_.empty()) return "they were not started";
    drain();
    bool all = true;
    for (size_t i = 0; i < children_.size(); ++i) {
      const std::optional<int>& status = poll_status(children_[i]);
      all = all && status;
      if (!status || (WIFEXITED(*status) && WEXITSTATUS(*status) == 0)) continue;
      drain();
      if (WIFSIGNALED(*status))
        return fmt::format("process {} was killed by signal {}", i, WTERMSIG(*status));
      if (WEXITSTATUS(*status) == kNotFoundExit && output_.empty())
        return fmt::format("{} was not found", options_.pool.command.front());
      return fmt::format("process {} printed: {}", i, first_words(output_));
    }
    if (!all) return std::nullopt;
    return "all processes have ended";
  }

  std::string state_of(int process) override { return below_.state_of(process); }

  std::string output() override {
    drain();
    return output_;
  }

  void drain() override {
    std::FILE* const also = options_.pool.passes_on ? stderr : nullptr;
    for (const Started& one : children_) read_output(one.child.output, output_, also);
  }

  // Waits for the children, which exit when their connection to the coordinator closes; kills those
  // that do not exit in time.
  void stop() override {
    if (children_.empty()) return;
    const Clock::time_point soon = Clock::now() + kChildExitTimeout;
    while (!all_ended() && Clock::now() < soon) std::this_thread::sleep_for(milliseconds(2));
    ProcessReaper endings;
    endings.kill_all(address_, 0);
    const Clock::time_point limit = Clock::now() + kKillTimeout;
    while ((!all_ended() || !endings.reap()) && Clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(1));
    drain();
    for (const Started& one : children_) ::close(one.child.output);
    children_.clear();
    folder_.reset();
  }

 private:
  struct Started {
    Child child;
    std::optional<int> status;
  };

  static const std::optional<int>& poll_status(Started& one) {
    int status = 0;
    if (!one.status && has_ended(one.child.pid, &status)) one.status = status;
    return one.status;
  }
  bool all_ended() {
    bool all = true;
    for (Started& one : children_) all = poll_status(one).has_value() && all;
    return all;
  }

  SpawnOptions options_;
  std::unique_ptr<RunDirectory> folder_;
  std::vector<Started> children_;
  DescendantProcesses below_;
  std::string address_, output_;
};

}  // namespace

std::unique_ptr<Starter> spawner(const SpawnOptions& options) {
  return std::make_unique<ProcessSpawner>(options);
}

}  // namespace shardproof
