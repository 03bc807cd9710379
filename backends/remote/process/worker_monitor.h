// The keeper: a process that does nothing but watch one worker, its child, and tell the
// coordinator how that ended. Only a parent learns by which signal.
#pragma once

#include <chrono>
#include <string>

#include "shardproof/backends/remote/process/progress_page.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Forks; returns in the child, which becomes the worker and ends when its keeper does. Before any
// thread is started. The page is the worker's as long as it lives.
ProgressPage* fork_monitored_worker(const std::string& address, int process);

struct MonitoredWorker {
  std::string address;  // of the coordinator
  ProgressPage* progress = nullptr;
};
// The same in a process that somebody else started, which goes to a rendezvous. The keeper ends
// with exit code 0, whatever became of the worker: what went wrong is in the report, and who
// started the processes must not end those that write it.
MonitoredWorker monitor_external_worker(const std::string& rendezvous, int process,
                                        std::chrono::seconds patience);

// Of a worker that comes to nothing: the coordinator is told why, if it is still there.
void decline(const std::string& address, int process, const Error& error);

}  // namespace shardproof
