// The spawner: starts the processes of a crew on this machine itself, without an mpirun; only the
// first one when somebody else has started the others.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/process/child_process.h"

namespace shardproof {

struct SpawnOptions {
  WorkerPoolOptions pool;
  // What is added to this process's own, beside its numbers (kProcessVariable); may be empty.
  std::function<Environment(int process)> environment = {};
};
std::unique_ptr<Starter> spawner(const SpawnOptions& options);

}  // namespace shardproof
