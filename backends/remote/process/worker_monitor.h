// Worker monitor: a process that only watches one worker, its child, and reports to the coordinator
// how the worker stopped or ended. Only a parent can read which signal ended a process (waitpid).
#pragma once

#include <chrono>
#include <string>

#include "shardproof/backends/remote/process/progress_page.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Forks. The parent becomes the monitor, connects to the coordinator at `address`, and never
// returns. Returns in the child, which becomes the worker; the kernel kills it when its monitor
// ends. The returned page is valid as long as the worker. Requires a process with one thread.
// Throws Error(io) if the coordinator is not reached or no process can be made, Error(limit) if
// there is no memory.
ProgressPage* fork_monitored_worker(const std::string& address, int process);

struct MonitoredWorker {
  std::string address;  // address of the coordinator (connect_to)
  ProgressPage* progress = nullptr;
};
// Forks in the same way in a process that mpirun, srun or a shell has started. The monitor finds
// the coordinator at a rendezvous and waits up to `timeout` for it. The monitor ends with exit code
// 0 even if the worker failed: otherwise mpirun would kill the processes that write the report.
MonitoredWorker monitor_external_worker(const std::string& rendezvous, int process,
                                        std::chrono::seconds timeout);

// Reports to the coordinator why this worker cannot take part. Does nothing if it is not reached.
void report_unfit(const std::string& address, int process, const Error& error);

}  // namespace shardproof
