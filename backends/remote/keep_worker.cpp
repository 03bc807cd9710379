#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shardproof/backends/remote/keeper.h"
#include "shardproof/backends/remote/message_pipe.h"
#include "shardproof/backends/remote/messages.h"

namespace shardproof {
namespace {

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("signal {} (SIG{})", signal, name);
}

// How a child's state reads, and whether that is its end.
std::string state_words(int status) {
  if (WIFSTOPPED(status)) return "is stopped by " + signal_text(WSTOPSIG(status));
  if (WIFCONTINUED(status)) return "";
  if (WIFSIGNALED(status)) return "was killed by " + signal_text(WTERMSIG(status));
  return fmt::format("has ended with exit code {}", WEXITSTATUS(status));
}

[[noreturn]] void watch(pid_t worker, MessagePipe& pipe, int process) {
  for (;;) {
    int status = 0;
    const pid_t changed = ::waitpid(worker, &status, WUNTRACED | WCONTINUED);
    if (changed < 0 && errno == EINTR) continue;
    if (changed < 0) ::_exit(1);
    WireWriter message;
    message.add(static_cast<int64_t>(Announce::state));
    message.add(int64_t{process});
    message.add(state_words(status));
    pipe.send(message);
    pipe.flush();
    if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
    if (WIFSIGNALED(status)) ::_exit(1);
  }
}

}  // namespace

void keep_worker(const std::string& address, int process) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::unique_ptr<MessagePipe> pipe = go_to(address);
  WireWriter greeting;
  greeting.add(static_cast<int64_t>(Announce::state));
  greeting.add(int64_t{process});
  greeting.add(std::string_view());
  pipe->send(greeting);
  pipe->flush();
  const pid_t keeper = ::getpid();
  const pid_t worker = ::fork();
  if (worker < 0) throw Error(ErrorKind::io, fmt::format("no process: {}", std::strerror(errno)));
  if (worker > 0) watch(worker, *pipe, process);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: short waits are short
  if (::getppid() != keeper) ::_exit(1);
}

}  // namespace shardproof
