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

constexpr std::chrono::milliseconds kBetweenLooks{200};
constexpr int kLooksOfAStart = 25;
constexpr const char* kGone = "has ended before it came";
constexpr const char* kNumber = "OMPI_COMM_WORLD_RANK=";

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

fs::path folder_of(pid_t process) { return fs::path("/proc") / std::to_string(process); }

// Any thread may have started some.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code ignored;
  for (fs::directory_iterator at(folder_of(process) / "task", ignored), end; at != end;
       at.increment(ignored)) {
    std::istringstream in(text_of(at->path() / "children"));
    for (pid_t child = 0; in >> child;) children.push_back(child);
  }
  return children;
}

// -1: it has none yet.
int number_of(pid_t process) {
  const std::string variables = '\0' + text_of(folder_of(process) / "environ");
  const size_t at = variables.find(std::string(1, '\0') + kNumber);
  if (at == std::string::npos) return -1;
  return std::atoi(variables.c_str() + at + 1 + std::char_traits<char>::length(kNumber));
}

}  // namespace

char process_state(pid_t process) {
  const std::string stat = text_of(folder_of(process) / "stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

void DescendantProcesses::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < looked_ + kBetweenLooks) return;
  looked_ = now;
  const size_t before = seen_.size();
  for (const pid_t child : children_of(mpirun_))
    if (const int number = number_of(child); number >= 0) seen_.emplace(number, child);
  if (process_state(mpirun_) != 'T') ++looks_without_news_;
  if (seen_.size() != before) looks_without_news_ = 0;
}

std::string DescendantProcesses::state_of(int process) {
  if (mpirun_ <= 0) return {};
  look();
  if (seen_.size() <= 1) return {};  // one alone may be somebody else below a shell
  const auto found = seen_.find(process);
  if (found == seen_.end()) return looks_without_news_ >= kLooksOfAStart ? kGone : "";
  const char state = process_state(found->second);
  if (state == 'T') return "is stopped";
  return state == '\0' || state == 'Z' || state == 'X' ? kGone : "";
}

}  // namespace shardproof
