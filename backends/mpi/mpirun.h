// Starts processes with mpirun, on this machine or on those of a host file. Internal to the mpi
// backend.
#pragma once

#include <memory>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/process/starter.h"

namespace shardproof {

std::unique_ptr<Starter> mpirun_starter(const WorkerPoolOptions& options);
// Returns why mpirun cannot be used; nullopt if it can. Runs mpirun --version, up to 20 s, until it
// has succeeded once in this process. Thread-safe.
std::optional<std::string> no_mpirun();

}  // namespace shardproof
