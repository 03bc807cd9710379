// DescendantProcesses: finds the processes that an mpirun on this machine has started. It reports
// which of them ended or were stopped before they connected. Reads /proc. Internal to
// backends/remote and to backends of real processes. Not thread-safe; looks at most every 200 ms.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

namespace shardproof {

class DescendantProcesses {
 public:
  // `mpirun`: process id; 0 if there is no mpirun on this machine.
  explicit DescendantProcesses(pid_t mpirun = 0) : mpirun_(mpirun) {}
  // Returns the state of MPI rank `process` in the words of a worker monitor; empty if it runs or
  // was never seen. Reports a rank as exited if mpirun has started others and no new process
  // appeared in 5 s.
  std::string state_of(int process);

 private:
  void look();

  pid_t mpirun_;
  std::map<int, pid_t> seen_;
  std::chrono::steady_clock::time_point looked_;
  int looks_without_news_ = 0;
};

}  // namespace shardproof
