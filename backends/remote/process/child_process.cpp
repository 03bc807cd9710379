// Implements child_process.h, except process_state (descendant_processes.cpp).
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr size_t kMaxOutputBytes = 1 << 14;
constexpr size_t kMaxReadBytes = 1
                                 << 16;  // the size of a pipe: reading until empty might never end

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// Returns the arguments of a process, each between zero bytes; empty if it has ended.
std::string arguments_of(pid_t pid) {
  const int file = ::open(fmt::format("/proc/{}/cmdline", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string words(1, '\0');
  char chunk[4096];
  for (ssize_t n; (n = ::read(file, chunk, sizeof(chunk))) > 0;)
    words.append(chunk, static_cast<size_t>(n));
  ::close(file);
  return words;
}

// Returns the processes of this machine that have `word` among their arguments.
std::vector<pid_t> processes_with_argument(const std::string& word) {
  std::vector<pid_t> found;
  const std::string whole = '\0' + word + '\0';
  std::error_code ignored;
  for (std::filesystem::directory_iterator at("/proc", ignored), end; at != end;
       at.increment(ignored)) {
    const pid_t pid = std::atoi(at->path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    if (arguments_of(pid).find(whole) != std::string::npos) found.push_back(pid);
  }
  return found;
}

}  // namespace

Child start_child(const std::vector<std::string>& words, const Environment& more) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::io, fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  std::vector<std::string> own_words = words;
  const std::vector<char*> arguments = pointers(own_words);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw Error(ErrorKind::io, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    // setenv is safe here: the process has one thread, so no thread holds the lock of malloc.
    for (const auto& [name, value] : more) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(arguments[0], arguments.data());
    ::_exit(kNotFoundExit);
  }
  ::close(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {child, ends[0]};
}

void close_files(unsigned first, unsigned last) {
  constexpr unsigned kMany = 1024;  // if the kernel has no close_range
  if (::close_range(first, last, 0) == 0) return;
  for (unsigned file = first; file <= std::min(last, kMany); ++file)
    ::close(static_cast<int>(file));
}

bool has_ended(pid_t child, int* status) {
  const pid_t ended = ::waitpid(child, status, WNOHANG);
  return ended == child || (ended < 0 && errno == ECHILD);
}

void read_output(int output, std::string& text, std::FILE* also) {
  char chunk[4096];
  size_t taken = 0;
  for (ssize_t n; taken < kMaxReadBytes && (n = ::read(output, chunk, sizeof(chunk))) > 0;) {
    taken += static_cast<size_t>(n);
    text.append(chunk, static_cast<size_t>(n));
    if (also != nullptr) std::fwrite(chunk, 1, static_cast<size_t>(n), also);
  }
  if (text.size() > 2 * kMaxOutputBytes) text.erase(0, text.size() - kMaxOutputBytes);
}

std::string first_words(const std::string& output) {
  constexpr size_t kLongest = 240;
  std::istringstream in(output);
  std::string words;
  for (std::string line; std::getline(in, line) && words.size() < kLongest;) {
    line.erase(0, line.find_first_not_of(" -"));
    if (!line.empty()) words += (words.empty() ? "" : " ") + line;
  }
  return words.empty() ? "nothing" : words;
}

void ProcessReaper::kill_all(const std::string& word, pid_t but) {
  for (const pid_t pid : processes_with_argument(word)) {
    if (pid == but) continue;
    ::kill(pid, SIGKILL);
    killed_.insert(pid);
  }
}

bool ProcessReaper::reap() {
  std::erase_if(killed_, [](pid_t pid) {
    return ::waitpid(pid, nullptr, WNOHANG) == pid || ::kill(pid, 0) != 0;
  });
  return killed_.empty();
}

}  // namespace shardproof
