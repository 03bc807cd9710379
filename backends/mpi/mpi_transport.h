// Exchanges over MPI, non-blocking underneath. Internal to the mpi backend.
#pragma once

#include <memory>

#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

inline constexpr int64_t kMostElements = int64_t{1} << 30;  // MPI counts in ints

// MPI is initialized with the transport and finalized with it. An exchange of more elements is cut
// into several calls of MPI.
std::unique_ptr<Transport> mpi_transport(int64_t most_elements = kMostElements);

}  // namespace shardproof
