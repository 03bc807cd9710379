#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "shardproof/backends/mpi/detail/mpirun.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kKeptOutput = 1 << 14;
constexpr uint64_t kSharedMemory = uint64_t{64} << 20;  // a process, with room to spare
constexpr int kNotFound = 127;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

bool has_room(const char* folder, uint64_t bytes) {
  struct statvfs room {};
  if (::statvfs(folder, &room) != 0) return false;
  return static_cast<uint64_t>(room.f_bavail) * room.f_frsize >= bytes;
}

// Starts a child in a process group of its own that ends with this process. Returns the reading
// end of what it prints.
int spawn(std::vector<std::string> words, pid_t& child) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::io, fmt::format("no pipe: {}", std::strerror(errno)));
  const std::vector<char*> arguments = pointers(words);
  const pid_t parent = ::getpid();
  child = ::fork();
  if (child < 0) throw Error(ErrorKind::io, fmt::format("no process: {}", std::strerror(errno)));
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(kNotFound);
  }
  ::close(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return ends[0];
}

// Of a process that may end at any moment.
std::string words_of(pid_t pid) {
  const int file = ::open(fmt::format("/proc/{}/cmdline", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string words;
  char chunk[4096];
  for (ssize_t n; (n = ::read(file, chunk, sizeof(chunk))) > 0;)
    words.append(chunk, static_cast<size_t>(n));
  ::close(file);
  return words;
}

// Processes of this machine that were started with that word.
std::vector<pid_t> started_with(const std::string& word) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator at("/proc", ignored), end; at != end;
       at.increment(ignored)) {
    const pid_t pid = std::atoi(at->path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    if (words_of(pid).find(word) != std::string::npos) found.push_back(pid);
  }
  return found;
}

// Kills them; they are this process's children as soon as their parents have ended, and are waited
// for until nothing of them is left.
class Endings {
 public:
  void kill_all(const std::string& word, pid_t but) {
    for (const pid_t pid : started_with(word)) {
      if (pid == but) continue;
      ::kill(pid, SIGKILL);
      killed_.insert(pid);
    }
  }
  // False while some are left.
  bool reap() {
    std::erase_if(killed_, [](pid_t pid) {
      return ::waitpid(pid, nullptr, WNOHANG) == pid || ::kill(pid, 0) != 0;
    });
    return killed_.empty();
  }

 private:
  std::set<pid_t> killed_;
};

// The first lines that say something, as one.
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

// A process that removes a folder when this one has ended without a word, as killed ones do. Only
// calls that are safe after a fork beside threads.
class Janitor {
 public:
  explicit Janitor(const std::string& folder) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      wait_and_remove(ends[0], folder.c_str());
    }
    ::close(ends[0]);
    line_ = ends[1];
  }
  ~Janitor() {
    if (pid_ <= 0) return;
    const char word = 0;
    ::send(line_, &word, 1, MSG_NOSIGNAL);
    ::close(line_);
    ::waitpid(pid_, nullptr, 0);
  }
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

 private:
  [[noreturn]] static void wait_and_remove(int line, const char* folder) {
    ::setsid();  // a terminal's signals are for the others
    if (line > 0) ::close_range(0, static_cast<unsigned>(line) - 1, 0);
    ::close_range(static_cast<unsigned>(line) + 1, ~0u, 0);
    char word = 0;
    ssize_t heard = 0;
    while ((heard = ::read(line, &word, 1)) < 0 && errno == EINTR) {
    }
    if (heard == 1) ::_exit(0);
    const timespec until_they_have_ended{0, 500'000'000};
    ::nanosleep(&until_they_have_ended, nullptr);
    ::execlp("rm", "rm", "-rf", "--", folder, static_cast<char*>(nullptr));
    ::_exit(kNotFound);
  }

  pid_t pid_ = -1;
  int line_ = -1;
};

// Files of the processes while they run.
class Folder {
 public:
  Folder() : path_(made()), janitor_(path_) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::string made() {
    std::error_code failed;
    std::string path =
        (std::filesystem::temp_directory_path(failed) / "shardproof-XXXXXX").string();
    if (failed || ::mkdtemp(path.data()) == nullptr)
      throw Error(ErrorKind::io, "no folder for temporary files could be made");
    return path;
  }

  std::string path_;
  Janitor janitor_;
};

class Mpirun : public Starter {
 public:
  explicit Mpirun(CrewOptions options) : options_(std::move(options)) {}
  ~Mpirun() override { stop(); }

  void start(const std::string& address, int processes) override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    folder_ = std::make_unique<Folder>();
    std::vector<std::string> words = words_of(processes);
    for (const std::string& word : options_.command)
      words.push_back(options_.input && word == kInputPath ? kept_input() : word);
    words.push_back(address);
    address_ = address;
    output_.clear();
    status_.reset();
    pipe_ = spawn(std::move(words), child_);
  }

  std::optional<std::string> ended() override {
    if (child_ <= 0) return "they are not there";
    drain();
    if (!status_) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) != child_) return std::nullopt;
      status_ = status;
      drain();
    }
    if (WIFSIGNALED(*status_))
      return fmt::format("mpirun was killed by signal {}", WTERMSIG(*status_));
    if (WEXITSTATUS(*status_) == kNotFound && output_.empty())
      return "mpirun was not found; install openmpi-bin";
    return "mpirun says: " + first_words(output_);
  }

  std::string output() override {
    drain();
    return output_;
  }

  // First mpirun, which cleans up behind itself if it can; then whoever is left.
  void stop() override {
    if (child_ <= 0) return;
    Endings endings;
    if (!ended()) {
      endings.kill_all(address_, child_);
      ::kill(child_, SIGTERM);
    }
    const Clock::time_point soon = Clock::now() + milliseconds(1000);
    while (!ended() && Clock::now() < soon) std::this_thread::sleep_for(milliseconds(2));
    ::kill(child_, SIGKILL);
    while (!ended()) std::this_thread::sleep_for(milliseconds(1));
    endings.kill_all(address_, 0);
    const Clock::time_point limit = Clock::now() + milliseconds(3000);
    while (!endings.reap() && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(1));
    ::close(pipe_);
    child_ = 0;
    folder_.reset();
  }

 private:
  std::vector<std::string> words_of(int processes) const {
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
      words.insert(words.end(), {"--hostfile", *options_.host_file});
    } else {
      set("plm", "isolated");  // no remote shell is looked for
    }
    set("pml", "ob1");
    set("btl", options_.host_file ? "self,vader,tcp" : "self,vader");
    set("btl_vader_single_copy_mechanism", "none");  // needs rights that containers do not give
    set("mpi_yield_when_idle", "1");
    set("orte_tmpdir_base", folder_->path());
    const uint64_t needed = kSharedMemory * static_cast<uint64_t>(processes);
    if (!has_room("/dev/shm", needed)) set("btl_vader_backing_directory", folder_->path());
    return words;
  }

  std::string kept_input() const {
    const std::string path = folder_->path() + "/" + kInputPath;
    if (!(std::ofstream(path, std::ios::binary) << *options_.input << std::flush))
      throw Error(ErrorKind::io, path + " cannot be written");
    return path;
  }

  void drain() {
    char chunk[4096];
    for (ssize_t n; (n = ::read(pipe_, chunk, sizeof(chunk))) > 0;)
      output_.append(chunk, static_cast<size_t>(n));
    if (output_.size() > 2 * kKeptOutput) output_.erase(0, output_.size() - kKeptOutput);
  }

  CrewOptions options_;
  std::unique_ptr<Folder> folder_;
  pid_t child_ = 0;
  int pipe_ = -1;
  std::optional<int> status_;
  std::string address_, output_;
};

}  // namespace

std::unique_ptr<Starter> mpirun_starter(const CrewOptions& options) {
  return std::make_unique<Mpirun>(options);
}

bool has_mpirun() {
  pid_t child = 0;
  const int output = spawn({"mpirun", "--version"}, child);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(output);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace shardproof
