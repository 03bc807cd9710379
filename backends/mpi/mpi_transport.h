// The transport over MPI, with non-blocking calls. Internal to the mpi backend.
#pragma once

#include <memory>

#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

inline constexpr int64_t kMostElements = int64_t{1} << 30;  // MPI counts in ints

// Initializes MPI; the transport's destructor finalizes it. An exchange of more than
// `most_elements` is cut into several MPI calls.
std::unique_ptr<Transport> mpi_transport(int64_t most_elements = kMostElements);

}  // namespace shardproof
