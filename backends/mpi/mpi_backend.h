// The mpi backend: ranks in processes started by mpirun, which exchange contents over MPI. Without
// MPI in the build, or without mpirun, not_viable() returns the reason.
#pragma once

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

std::shared_ptr<Backend> mpi_backend();

}  // namespace shardproof
