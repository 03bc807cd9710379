// Implements run_directory.h. A forked helper process reads from a socket that only the owner holds
// open. When the owner ends in any way, the read ends, and the helper removes the folders.
#include <signal.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/backends/remote/process/run_directory.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr const char* kMemoryFolder = "/dev/shm";

bool has_room(const char* folder, uint64_t bytes) {
  struct statvfs room {};
  if (::statvfs(folder, &room) != 0) return false;
  return static_cast<uint64_t>(room.f_bavail) * room.f_frsize >= bytes;
}

// Makes a folder of its own below `below`. Returns its path; empty, with errno set, on failure.
std::string new_folder(const std::string& below) {
  std::string path = below + "/shardproof-XXXXXX";
  return ::mkdtemp(path.data()) == nullptr ? "" : path;
}

// Decides where processes share memory: true for /dev/shm. A process that writes to shared memory
// on a full file system is killed by SIGBUS, so this throws Error(io) if neither place has room.
bool shares_in_memory_folder(const char* files, const RunDirectory::Needs& needs) {
  if (!has_room(files, needs.bytes))
    throw Error(ErrorKind::io,
                fmt::format("{}: temporary files need {} MiB, there is less space; set TMPDIR to "
                            "another folder",
                            files, needs.bytes >> 20));
  if (needs.shared_bytes == 0) return false;
  if (has_room(kMemoryFolder, needs.shared_bytes)) return true;
  if (has_room(files, needs.bytes + needs.least_shared)) return false;
  if (has_room(kMemoryFolder, needs.least_shared)) return true;
  throw Error(ErrorKind::io,
              fmt::format("the processes share {} MiB of memory, there is less space in {} and in "
                          "{}; set TMPDIR to another folder",
                          needs.least_shared >> 20, kMemoryFolder, files));
}

// Runs in the helper. After a fork in a process with several threads, only async-signal-safe calls
// are allowed. It closes all other files, which it would otherwise keep open.
[[noreturn]] void wait_and_remove(int line, const char* folder, const char* shared) {
  ::setsid();  // signals of the terminal must not end the helper
  if (line > 0) close_files(0, static_cast<unsigned>(line) - 1);
  close_files(static_cast<unsigned>(line) + 1, ~0u);
  char word = 0;
  while (::read(line, &word, 1) < 0 && errno == EINTR) {
  }
  const timespec until_they_have_ended{0, 500'000'000};
  ::nanosleep(&until_they_have_ended, nullptr);
  ::execlp("rm", "rm", "-rf", "--", folder, shared, static_cast<char*>(nullptr));
  ::_exit(1);
}

}  // namespace

RunDirectory::RunDirectory(const Needs& needs) {
  std::error_code failed;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(failed);
  if (failed)
    throw Error(
        ErrorKind::io,
        fmt::format("the folder for temporary files: {}; set TMPDIR to another", failed.message()));
  const bool in_memory = shares_in_memory_folder(temporary.c_str(), needs);
  path_ = new_folder(temporary.string());
  if (path_.empty())
    throw Error(ErrorKind::io, fmt::format("{}: cannot make a folder for temporary files: {}; set "
                                           "TMPDIR to another folder",
                                           temporary.string(), std::strerror(errno)));
  if (in_memory) shared_path_ = new_folder(kMemoryFolder);
  start_cleanup_process();
}

// Starts the helper. Without one, a killed owner leaves its folders behind.
void RunDirectory::start_cleanup_process() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  cleanup_process_ = ::fork();
  if (cleanup_process_ == 0) wait_and_remove(ends[0], path_.c_str(), shared_path().c_str());
  ::close(ends[0]);
  line_ = ends[1];
}

// Kills the helper instead of waiting for it: it may be stopped.
RunDirectory::~RunDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  std::filesystem::remove_all(shared_path(), ignored);
  if (cleanup_process_ > 0) {
    ::kill(cleanup_process_, SIGKILL);
    ::waitpid(cleanup_process_, nullptr, 0);
  }
  if (line_ >= 0) ::close(line_);
}

std::vector<std::string> RunDirectory::worker_words(const WorkerPoolOptions& options) const {
  std::vector<std::string> words = options.command;
  for (std::string& word : words) {
    if (!options.input || word != kInputPath) continue;
    word = path_ + "/" + kInputPath;
    if (!(std::ofstream(word, std::ios::binary) << *options.input << std::flush))
      throw Error(ErrorKind::io, word + " cannot be written");
  }
  return words;
}

}  // namespace shardproof
