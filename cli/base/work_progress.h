// WorkProgress: shows how much of a long command is done. On a terminal it redraws one line of
// standard error. Elsewhere it writes a line every 10 seconds, so that a log shows progress. A
// command of less than 10 seconds writes nothing there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace shardproof {

class WorkProgress {
 public:
  // `command` begins each line; `unit` names the pieces: "ops".
  WorkProgress(std::string command, std::string unit, size_t total);
  ~WorkProgress();  // clears the line on a terminal
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  // Any thread may call these. `name` is the piece that begins or ends.
  void begin(const std::string& name);
  void end(const std::string& name);

  // Returns "check-ops: 12 of 301 ops, 31 s; now conv2d, matmul".
  std::string line() const;

 private:
  void show_until_done();

  const std::string command_, unit_;
  const size_t total_;
  const bool redraws_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  size_t done_ = 0;
  std::map<std::string, int> running_;  // how many times each
  bool ends_ = false;
  std::thread thread_;  // last, because it reads the other members
};

}  // namespace shardproof
