// The mpi backend: ranks in real processes, which are started by mpirun and exchange contents over
// MPI. Where the tree was built without MPI, or mpirun is missing, it is not viable and says why.
#pragma once

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

std::shared_ptr<Backend> mpi_backend();

}  // namespace shardproof
