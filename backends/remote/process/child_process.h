// Processes that this one starts, with what they print; and how they and all that they started are
// brought to their end. Internal to the remote layer and to backends of real processes.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardproof {

inline constexpr int kNotFoundExit = 127;  // of a child whose program is not there

using Environment = std::vector<std::pair<std::string, std::string>>;

// In a process group of its own, that ends with this process. Reads nothing.
struct Child {
  pid_t pid = 0;
  int output = -1;  // the reading end of what it prints; never blocks
};
// `more` is added to this process's environment. Throws Error(io).
Child start_child(const std::vector<std::string>& words, const Environment& more = {});
// Whether a child has ended; then its status, as of waitpid. Of who is no child of this process, as
// where nobody is told of children, it is true and the status stays as it is. Not to be asked
// again.
bool has_ended(pid_t child, int* status);
// As Linux tells it: T is stopped, Z and X have ended; 0: it knows nothing of it.
char process_state(pid_t process);
// Takes what it has printed so far; only the last of it is kept. All of it goes to `also` at once.
void read_output(int output, std::string& text, std::FILE* also = nullptr);
// The first lines that say something, as one.
std::string first_words(const std::string& output);

// Closes the files of this process with these numbers, also where the system knows of no ranges.
void close_files(unsigned first, unsigned last);

// Kills processes; they are this process's children as soon as their parents have ended, and are
// waited for until nothing of them is left.
class ProcessReaper {
 public:
  // All processes of this machine that were started with that word, but for one.
  void kill_all(const std::string& word, pid_t but);
  // False while some are left.
  bool reap();

 private:
  std::set<pid_t> killed_;
};

}  // namespace shardproof
