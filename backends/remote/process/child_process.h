// Child processes: starts them, reads their output, and ends them with all processes that they
// started. Internal to backends/remote and to backends of real processes. POSIX; not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardproof {

inline constexpr int kNotFoundExit = 127;  // exit code of a child whose program was not found

using Environment = std::vector<std::pair<std::string, std::string>>;

// A process in a process group of its own. The kernel kills it when this process ends. Its standard
// input is empty.
struct Child {
  pid_t pid = 0;
  int output = -1;  // non-blocking pipe with the standard output and error; the caller closes it
};
// Starts `words[0]` with the arguments `words`. Adds `more` to this process's environment. Returns
// the child; throws Error(io) if no pipe or process can be made. If the program is not found, the
// child ends with kNotFoundExit.
Child start_child(const std::vector<std::string>& words, const Environment& more = {});
// True if `child` has ended; `*status` is then its status as waitpid gives it. If `child` is not a
// child of this process, returns true and leaves `*status` unchanged. Requires that it has not
// returned true for this child before.
bool has_ended(pid_t child, int* status);
// Returns the state letter of /proc/PID/stat: T is stopped, Z and X have ended; '\0' if unknown.
char process_state(pid_t process);
// Appends the contents of the pipe `output` to `text` without waiting. Also writes them to `also`
// if that is not null. Shortens `text` to its last 16 KiB when it grows beyond twice that.
void read_output(int output, std::string& text, std::FILE* also = nullptr);
// Returns the first non-empty lines of `output`, about 240 characters, joined by spaces; "nothing"
// if there are none.
std::string first_words(const std::string& output);

// Closes this process's files `first` to `last`. On kernels without close_range it closes those up
// to 1024.
void close_files(unsigned first, unsigned last);

// Kills processes and waits until they have exited. Requires PR_SET_CHILD_SUBREAPER: a process
// whose parent has ended then becomes a child of this one and can be waited for.
class ProcessReaper {
 public:
  // Kills all processes of this machine that have `word` among their arguments, except `but`.
  void kill_all(const std::string& word, pid_t but);
  // Waits for those that have ended, without blocking. Returns true if none is left.
  bool reap();

 private:
  std::set<pid_t> killed_;
};

}  // namespace shardproof
