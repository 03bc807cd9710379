// The conformance suite over MPI: this program starts itself under mpirun.
#include <cstdlib>

#include "shardproof/backends/mpi/mpi_backend.h"
#include "shardproof/backends/mpi/mpirun.h"
#include "shardproof/tests/backends/worker_pool_conformance.h"

namespace shardproof {

const WorkerPoolConformance& pool_conformance() {
  static const WorkerPoolConformance kMpi{
      "mpi",
      {1, 2, 3, 4, 8},
      [](const WorkerPoolOptions& options) { return mpirun_starter(options); },
      [] {
        return std::pair(std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")),
                         std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE")));
      },
      [](const WorkerPoolOptions& options) { return mpi_backend()->with_processes(options); },
      {}};
  return kMpi;
}

}  // namespace shardproof
