// DescendantProcesses: processes of this machine that an mpirun has started, before they have said
// anything. Internal to the remote layer and to backends of real processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

namespace shardproof {

class DescendantProcesses {
 public:
  // 0: of no mpirun that could be looked at.
  explicit DescendantProcesses(pid_t mpirun = 0) : mpirun_(mpirun) {}
  // What became of the one with this number, as a keeper says it; empty: it lives, or was not seen.
  std::string state_of(int process);

 private:
  void look();

  pid_t mpirun_;
  std::map<int, pid_t> seen_;
  std::chrono::steady_clock::time_point looked_;
  int looks_without_news_ = 0;
};

}  // namespace shardproof
