// Implements mpirun.h: runs mpirun as a child process, watches it, and ends it with all that it has
// started.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "shardproof/backends/mpi/mpirun.h"
#include "shardproof/backends/remote/process/active_time_clock.h"
#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/backends/remote/process/descendant_processes.h"
#include "shardproof/backends/remote/process/run_directory.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMpiFileBytes = uint64_t{16} << 20;     // bytes; Open MPI uses half of it
constexpr uint64_t kSharedBytes = uint64_t{64} << 20;      // bytes for each process, with a reserve
constexpr uint64_t kLeastSharedBytes = uint64_t{5} << 20;  // bytes for each process
constexpr milliseconds kVersionTimeout{20000};

class MpirunStarter : public Starter {
 public:
  explicit MpirunStarter(WorkerPoolOptions options) : options_(std::move(options)) {}
  ~MpirunStarter() override { stop(); }

  void start(const std::string& address, int processes) override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const uint64_t sharing = options_.host_file ? 0 : static_cast<uint64_t>(processes);
    folder_ = std::make_unique<RunDirectory>(
        RunDirectory::Needs{kMpiFileBytes, kSharedBytes * sharing, kLeastSharedBytes * sharing});
    std::vector<std::string> words = mpirun_arguments(processes);
    for (std::string& word : folder_->worker_words(options_)) words.push_back(std::move(word));
    words.push_back(address);
    address_ = address;
    output_.clear();
    status_.reset();
    const Child started = start_child(words);
    child_ = started.pid;
    pipe_ = started.output;
    below_ = DescendantProcesses(options_.host_file ? 0 : child_);
  }

  std::optional<std::string> ended() override {
    if (child_ <= 0) return "they were not started";
    drain();
    if (!status_) {
      int status = 0;
      if (!has_ended(child_, &status)) return std::nullopt;
      status_ = status;
      drain();
    }
    if (WIFSIGNALED(*status_))
      return fmt::format("mpirun was killed by signal {}", WTERMSIG(*status_));
    if (WEXITSTATUS(*status_) == kNotFoundExit && output_.empty())
      return "mpirun was not found; install openmpi-bin";
    if (output_.empty())
      return fmt::format("mpirun has ended with exit code {}", WEXITSTATUS(*status_));
    return "mpirun printed: " + first_words(output_);
  }

  std::string state_of(int process) override { return below_.state_of(process); }

  std::string output() override {
    drain();
    return output_;
  }

  void drain() override { read_output(pipe_, output_, options_.passes_on ? stderr : nullptr); }

  // Ends mpirun first, which cleans up if it can; then kills the processes that are left.
  void stop() override {
    if (child_ <= 0) return;
    ProcessReaper endings;
    if (!ended()) {
      endings.kill_all(address_, child_);
      ::kill(child_, SIGTERM);
    }
    const Clock::time_point soon = Clock::now() + milliseconds(1000);
    while (!ended() && Clock::now() < soon) std::this_thread::sleep_for(milliseconds(2));
    if (!status_) ::kill(child_, SIGKILL);
    while (!ended()) std::this_thread::sleep_for(milliseconds(1));
    endings.kill_all(address_, 0);
    const Clock::time_point limit = Clock::now() + milliseconds(3000);
    while (!endings.reap() && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(1));
    ::close(pipe_);
    child_ = 0;
    folder_.reset();
  }

 private:
  std::vector<std::string> mpirun_arguments(int processes) const {
    std::vector<std::string> words{"mpirun",
                                   "--allow-run-as-root",
                                   "--oversubscribe",
                                   "--bind-to",
                                   "none",
                                   "--enable-recovery",
                                   "-n",
                                   fmt::format("{}", processes)};
    const auto set = [&words](const char* name, const std::string& value) {
      words.insert(words.end(), {"--mca", name, value});
    };
    if (options_.host_file) {
      if (!std::ifstream(*options_.host_file))
        throw_bad_input("--hosts: expected a host file of mpirun, found no readable file {}",
                        *options_.host_file);
      words.insert(words.end(), {"--hostfile", *options_.host_file});
    } else {
      set("plm", "isolated");  // do not look for a remote shell
    }
    set("pml", "ob1");
    set("btl", options_.host_file ? "self,vader,tcp" : "self,vader");
    set("btl_vader_single_copy_mechanism", "none");  // needs rights that containers lack
    set("mpi_yield_when_idle", "1");
    set("orte_tmpdir_base", folder_->path());
    // Open MPI's own files would stay in memory after a kill.
    if (!options_.host_file) set("btl_vader_backing_directory", folder_->shared_path());
    return words;
  }

  WorkerPoolOptions options_;
  std::unique_ptr<RunDirectory> folder_;
  pid_t child_ = 0;
  int pipe_ = -1;
  std::optional<int> status_;
  DescendantProcesses below_;
  std::string address_, output_;
};

}  // namespace

std::unique_ptr<Starter> mpirun_starter(const WorkerPoolOptions& options) {
  return std::make_unique<MpirunStarter>(options);
}

std::optional<std::string> no_mpirun() {
  static std::atomic<bool> has_run = false;
  if (has_run) return std::nullopt;
  const Child child = start_child({"mpirun", "--version"});
  ActiveTimeClock clock;
  const Clock::time_point limit = clock.now() + kVersionTimeout;
  int status = 0;
  bool ended = false;
  while (!(ended = has_ended(child.pid, &status)) && clock.now() < limit)
    std::this_thread::sleep_for(milliseconds(1));
  if (!ended) {
    ::kill(-child.pid, SIGKILL);
    ::waitpid(child.pid, &status, 0);
  }
  ::close(child.output);
  if (!ended)
    return fmt::format("mpirun --version did not end within {} s", kVersionTimeout.count() / 1000);
  has_run = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (has_run) return std::nullopt;
  return "mpirun was not found; install openmpi-bin";
}

}  // namespace shardproof
