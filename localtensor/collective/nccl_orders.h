// Orders with a file of their own. Internal to reduction_order.h.
#pragma once

#include "shardproof/localtensor/collective/reduction_order.h"

namespace shardproof {

// How PAT adds up the block of one member: elements of a chunk, and of the channel's part.
std::vector<FoldStep> pat_steps(int64_t members, int64_t destination, int64_t chunk_count,
                                int64_t count);

// Tiles of an all_reduce or reduce_scatter by NCCL's symmetric kernels.
std::vector<FoldRange> symmetric_ranges(const Collective& collective);

}  // namespace shardproof
