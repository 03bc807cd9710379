// Containers whose memory comes from the pool of tensors (detail/pool.h): what a world keeps for
// each of its ranks lies together in large slabs, which costs the system few pages.
#pragma once

#include <deque>
#include <vector>

#include "shardproof/localtensor/detail/pool.h"

namespace shardproof {

template <class T>
using PooledDeque = std::deque<T, detail::PoolAllocator<T>>;
template <class T>
using PooledVector = std::vector<T, detail::PoolAllocator<T>>;

}  // namespace shardproof
