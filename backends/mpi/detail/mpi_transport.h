// Exchanges over MPI, non-blocking underneath. Internal to the mpi backend.
#pragma once

#include <memory>

#include "shardproof/backends/remote/transport.h"

namespace shardproof {

// MPI is initialized with the transport and finalized with it.
std::unique_ptr<Transport> mpi_transport();

}  // namespace shardproof
