// WorkerHandle: one worker as the coordinator knows it, and how one of them is lost.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "shardproof/backends/remote/process/progress_page.h"
#include "shardproof/backends/remote/wire/message_pipe.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {

// One worker, over all worlds.
struct WorkerHandle {
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<MessagePipe> pipe, monitor;
  std::string state;           // what its keeper says of it; empty: it lives
  std::string trouble;         // why its exchanges no longer end, as its transport says
  Clock::time_point troubled;  // since then
  ProgressState progress;      // and how far it had come then
  pid_t pid = 0;
  bool joined = false;  // it has come together with the others
  bool case_done = false;
  bool leaving = false;     // it has come to its good end, but for its transport's
  bool has_more = false;    // messages that have come and were not heard yet
  Clock::time_point heard;  // anything at all, as the coordinator's time goes
  int64_t executed = 0;     // orders, of the world under way
  Activity activity = Activity::computes;
};

// Whether that is said of who is no more.
inline bool is_exit_description(const std::string& words) {
  return words.starts_with("was ") || words.starts_with("has ");
}

// Why a run cannot go on.
struct WorkerLoss {
  int process = 0;
  pid_t pid = 0;
  std::string words;  // "was killed by signal 9 (SIGKILL)"
};

}  // namespace shardproof
