// Implements worker_monitor.h.
//
// 1. The process connects to the coordinator, maps a page shared with its child, and forks.
// 2. The parent waits for SIGCHLD (through a signalfd) and for its socket. It reports each change
//    of the child: stopped, continued, ended, with the progress that the page holds.
// 3. When the coordinator sends anything or closes, the worker has 1 s to end and is then killed.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/backends/remote/rendezvous/rendezvous.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {
namespace {

constexpr int kWorkerExitMilliseconds =
    1000;  // milliseconds from the coordinator's end to killing the worker
constexpr int kParentPollMilliseconds = 100;  // milliseconds between checks of the parent process

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("signal {} (SIG{})", signal, name);
}

// Returns the state of a child as the predicate of a sentence; empty: it runs.
std::string state_text(int status) {
  if (WIFSTOPPED(status)) return "is stopped by " + signal_text(WSTOPSIG(status));
  if (WIFCONTINUED(status)) return "";
  if (WIFSIGNALED(status)) return "was killed by " + signal_text(WTERMSIG(status));
  return fmt::format("has ended with exit code {}", WEXITSTATUS(status));
}

// Maps a page that exists until both the worker and its monitor have ended.
ProgressPage* shared_page() {
  void* const memory = ::mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::limit, fmt::format("cannot map memory: {}", std::strerror(errno)));
  return new (memory) ProgressPage;
}

class WorkerMonitor {
 public:
  WorkerMonitor(std::unique_ptr<MessagePipe> pipe, int process)
      : pipe_(std::move(pipe)), process_(process), progress_(shared_page()) {
    report("");
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, &before_);
    changes_ = ::signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
  }

  // Forks; returns in both processes.
  void fork_worker() {
    const pid_t monitor = ::getpid();
    worker_ = ::fork();
    if (worker_ < 0)
      throw Error(ErrorKind::io,
                  fmt::format("cannot fork a worker process: {}; use fewer --processes or raise "
                              "the limit of processes (ulimit -u)",
                              std::strerror(errno)));
    if (worker_ > 0) return;
    ::close(changes_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_TIMERSLACK,
            1000);  // nanoseconds: the default of 50 us would lengthen short waits
    if (::getppid() != monitor) ::_exit(1);
  }
  bool is_worker() const { return worker_ == 0; }
  ProgressPage* progress() const { return progress_; }

  // Watches until the worker has ended. Returns its exit code; 1 if a signal ended it.
  int watch() {
    for (;;) {
      pollfd entries[] = {{changes_, POLLIN, 0}, {released_ ? -1 : pipe_->socket(), POLLIN, 0}};
      ::poll(entries, 2, released_ ? kWorkerExitMilliseconds : -1);
      signalfd_siginfo ignored;
      while (::read(changes_, &ignored, sizeof(ignored)) > 0) {
      }
      if (released_ && entries[0].revents == 0) ::kill(worker_, SIGKILL);
      // Any message, or a closed socket, means that the worker is no longer needed.
      released_ = released_ || pipe_->receive().has_value() || pipe_->closed();
      if (const std::optional<int> code = report_changes()) return *code;
    }
  }
  // Delays the end of a monitor whose worker failed: mpirun may kill all processes when one ends,
  // including the one that writes the report.
  void wait_for_the_end() {
    const auto is_watched = [this] { return ::getppid() == parent_; };
    while (!pipe_->closed() && is_watched()) {
      pollfd entry{pipe_->socket(), POLLIN, 0};
      ::poll(&entry, 1, kParentPollMilliseconds);
      pipe_->receive();
    }
    close_files(3, ~0u);  // frees the name that holds this process's number (rendezvous.h)
    const auto limit = std::chrono::steady_clock::now() + kDismissal + std::chrono::seconds(1);
    while (is_watched() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(kParentPollMilliseconds));
  }

 private:
  void report(std::string_view words) {
    WireWriter message = message_of(WorkerMessage::state);
    message.add(int64_t{process_});
    message.add(words);
    message.add(progress_->begun.load());
    message.add(progress_->done.load());
    message.add(int64_t{progress_->line.load()});
    pipe_->send(message);
    pipe_->flush();
  }
  std::optional<int> report_changes() {
    for (int status = 0; ::waitpid(worker_, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0;) {
      report(state_text(status));
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      if (WIFSIGNALED(status)) return 1;
    }
    return std::nullopt;
  }

  std::unique_ptr<MessagePipe> pipe_;
  int process_ = 0, changes_ = -1;
  ProgressPage* progress_;
  bool released_ = false;  // the worker is no longer needed
  pid_t parent_ = ::getppid(), worker_ = 0;
  sigset_t before_;
};

}  // namespace

ProgressPage* fork_monitored_worker(const std::string& address, int process) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  WorkerMonitor monitor(connect_to(address), process);
  monitor.fork_worker();
  if (!monitor.is_worker()) ::_exit(monitor.watch());
  return monitor.progress();
}

MonitoredWorker monitor_external_worker(const std::string& rendezvous, int process,
                                        std::chrono::seconds timeout) {
  RendezvousConnection entrance = connect_at_rendezvous(rendezvous, timeout);
  WorkerMonitor monitor(std::move(entrance.pipe), process);
  monitor.fork_worker();
  if (monitor.is_worker()) return {entrance.address, monitor.progress()};
  if (monitor.watch() != 0) monitor.wait_for_the_end();
  ::_exit(0);
}

void report_unfit(const std::string& address, int process, const Error& error) {
  try {
    const std::unique_ptr<MessagePipe> pipe = connect_to(address);
    WireWriter message = message_of(WorkerMessage::unfit);
    message.add(int64_t{process});
    message.add(std::string_view(error.what()));
    pipe->send(message);
    pipe->flush();
  } catch (const Error&) {  // the coordinator has ended
  }
}

}  // namespace shardproof
