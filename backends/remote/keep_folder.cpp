#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "shardproof/backends/remote/detail/run_folder.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

// Only calls that are safe after a fork beside threads.
[[noreturn]] void wait_and_remove(int line, const char* folder) {
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
  ::_exit(1);
}

}  // namespace

// A process beside this one removes the folder when this one ends without a word, as killed ones
// do.
RunFolder::RunFolder() {
  std::error_code failed;
  path_ = (std::filesystem::temp_directory_path(failed) / "shardproof-XXXXXX").string();
  if (failed || ::mkdtemp(path_.data()) == nullptr)
    throw Error(ErrorKind::io, "no folder for temporary files could be made");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  janitor_ = ::fork();
  if (janitor_ == 0) wait_and_remove(ends[0], path_.c_str());
  ::close(ends[0]);
  line_ = ends[1];
}

RunFolder::~RunFolder() {
  if (janitor_ > 0) {
    const char word = 0;
    ::send(line_, &word, 1, MSG_NOSIGNAL);
    ::waitpid(janitor_, nullptr, 0);
  }
  if (line_ >= 0) ::close(line_);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> RunFolder::worker_words(const CrewOptions& options) const {
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
