// Implements descendant_processes.h and process_state of child_process.h by reading /proc: the
// children of mpirun's threads, and Open MPI's rank number in the environment of each.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/backends/remote/process/descendant_processes.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kProcessScanInterval{200};
constexpr int kScansUntilGone = 25;
constexpr const char* kEndedBeforeConnecting = "has ended before it connected";
constexpr const char* kRankVariable = "OMPI_COMM_WORLD_RANK=";

std::string file_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

fs::path folder_of(pid_t process) { return fs::path("/proc") / std::to_string(process); }

// Returns the children of all threads of a process.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code ignored;
  for (fs::directory_iterator at(folder_of(process) / "task", ignored), end; at != end;
       at.increment(ignored)) {
    std::istringstream in(file_text(at->path() / "children"));
    for (pid_t child = 0; in >> child;) children.push_back(child);
  }
  return children;
}

// Returns the MPI rank of a process; -1 if its environment has none yet.
int mpi_rank_of(pid_t process) {
  const std::string variables = '\0' + file_text(folder_of(process) / "environ");
  const size_t at = variables.find(std::string(1, '\0') + kRankVariable);
  if (at == std::string::npos) return -1;
  return std::atoi(variables.c_str() + at + 1 + std::char_traits<char>::length(kRankVariable));
}

}  // namespace

char process_state(pid_t process) {
  const std::string stat = file_text(folder_of(process) / "stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

void DescendantProcesses::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < looked_ + kProcessScanInterval) return;
  looked_ = now;
  const size_t before = seen_.size();
  for (const pid_t child : children_of(mpirun_))
    if (const int number = mpi_rank_of(child); number >= 0) seen_.emplace(number, child);
  if (process_state(mpirun_) != 'T') ++looks_without_news_;
  if (seen_.size() != before) looks_without_news_ = 0;
}

std::string DescendantProcesses::state_of(int process) {
  if (mpirun_ <= 0) return {};
  look();
  if (seen_.size() <= 1) return {};  // the only one may be another program below a shell
  const auto found = seen_.find(process);
  if (found == seen_.end())
    return looks_without_news_ >= kScansUntilGone ? kEndedBeforeConnecting : "";
  const char state = process_state(found->second);
  if (state == 'T') return "is stopped";
  return state == '\0' || state == 'Z' || state == 'X' ? kEndedBeforeConnecting : "";
}

}  // namespace shardproof
