// Starter: starts and ends the processes of a run, as far as this program does that itself. The
// implementations are the spawner (process_spawner.h) and the one that runs mpirun (mpi/mpirun.h).
//
// Threading: one thread, the coordinator's. The coordinator owns its starter.
#pragma once

#include <optional>
#include <string>

namespace shardproof {

class Starter {
 public:
  virtual ~Starter() = default;
  // Starts the processes; they connect to `address`. Throws Error(io) if one cannot be started.
  virtual void start(const std::string& address, int processes) = 0;
  // Returns how the starter ended, as the end of a sentence "the processes could not be started:
  // ..."; nullopt while it runs.
  virtual std::optional<std::string> ended() = 0;
  // Returns the state of a process that has not connected yet, in the words of a worker monitor
  // (worker_monitor.h). Empty if the process runs or its state is unknown.
  virtual std::string state_of(int) { return {}; }
  // Reads what the processes have printed; a process whose pipe is full would block.
  virtual void drain() = 0;
  // Returns the last part of what the processes have printed so far.
  virtual std::string output() = 0;
  // Kills the processes that still run and waits for their end.
  virtual void stop() = 0;
};

}  // namespace shardproof
