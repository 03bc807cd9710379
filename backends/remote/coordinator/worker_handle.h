// WorkerHandle: the coordinator's record of one worker; WorkerLoss: why a run cannot continue.
//
// The coordinator owns its members. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "shardproof/backends/remote/process/progress_page.h"
#include "shardproof/backends/remote/wire/message_pipe.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {

// One worker. The record exists over all worlds of the run.
struct WorkerHandle {
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<MessagePipe> pipe, monitor;  // to the worker, and to its monitor process
  std::string state;              // as its monitor reported: "is stopped by ..."; empty: it runs
  std::string transport_error;    // error of its transport; empty: exchanges complete
  Clock::time_point error_since;  // when that error was received
  ProgressState progress;         // its progress when the monitor last reported
  ProgressState last_heartbeat;   // its progress at its last heartbeat
  int64_t heartbeats = 0;         // heartbeats received
  pid_t pid = 0;
  bool joined = false;  // its transport has connected to the other processes
  bool case_done = false;
  bool leaving = false;   // it has finished all cases and is closing its transport
  bool has_more = false;  // its pipe may hold messages that were received and not handled
  Clock::time_point
      last_message;      // last message of any kind, on the coordinator's active-time clock
  int64_t executed = 0;  // commands of the present world that it has completed
  HeartbeatActivity activity = HeartbeatActivity::computes;
};

// True if `words`, the state of a process, describe a process that has exited.
inline bool is_exit_description(const std::string& words) {
  return words.starts_with("was ") || words.starts_with("has ");
}

// The process because of which a run cannot continue, and its state.
struct WorkerLoss {
  int process = 0;
  pid_t pid = 0;
  std::string words;  // predicate of a sentence: "was killed by signal 9 (SIGKILL)"
};

}  // namespace shardproof
