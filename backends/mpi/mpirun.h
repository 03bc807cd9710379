// Starting processes with mpirun, on this machine or on those of a host file. Internal to the mpi
// backend.
#pragma once

#include <memory>

#include "shardproof/backends/remote/coordinator/coordinator.h"

namespace shardproof {

std::unique_ptr<Starter> mpirun_starter(const WorkerPoolOptions& options);
// Why none can be used here; nothing when one can.
std::optional<std::string> no_mpirun();

}  // namespace shardproof
