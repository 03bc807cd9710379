// Starting processes with mpirun, on this machine or on those of a host file. Internal to the mpi
// backend.
#pragma once

#include <memory>

#include "shardproof/backends/remote/coordinator.h"

namespace shardproof {

std::unique_ptr<Starter> mpirun_starter(const CrewOptions& options);
bool has_mpirun();

}  // namespace shardproof
