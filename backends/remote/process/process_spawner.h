// The process spawner: a Starter that starts the processes of a run on this machine by fork,
// without mpirun. If mpirun, srun or a shell has started the others, it starts only the first one.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/backends/remote/process/starter.h"

namespace shardproof {

struct SpawnOptions {
  WorkerPoolOptions pool;
  // Returns the variables that are added to the environment of a process, in addition to its
  // numbers (kProcessVariable). May be empty.
  std::function<Environment(int process)> environment = {};
};
std::unique_ptr<Starter> spawner(const SpawnOptions& options);

}  // namespace shardproof
