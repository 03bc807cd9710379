// The orders of NCCL that have a source of their own: PAT and symmetric. Internal to
// reduction_order.h.
#pragma once

#include "shardproof/localtensor/collective/reduction_order.h"

namespace shardproof {

// Returns the steps by which PAT folds the block of member `destination`. `chunk_count` and `count`
// are the elements of a chunk and of the channel's part. Requires members > 1.
std::vector<FoldStep> pat_steps(int64_t members, int64_t destination, int64_t chunk_count,
                                int64_t count);

// Returns the ranges of an all_reduce or reduce_scatter by NCCL's symmetric kernels.
std::vector<FoldRange> symmetric_ranges(const Collective& collective);

}  // namespace shardproof
