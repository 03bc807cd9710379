// One cut of one dim by one axis: what rank `index` of `ranks` takes of a local extent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The chunk rule: pieces of ceil(extent / ranks), the last ones short or empty.
inline int64_t chunk_length(int64_t extent, int64_t ranks, int64_t index) {
  const int64_t piece = ceil_div(extent, ranks);
  return std::clamp<int64_t>(extent - index * piece, 0, piece);
}

inline int64_t cut_length(const Shard& shard, int64_t extent, int64_t ranks, int64_t index) {
  if (!shard.sizes.empty()) return shard.sizes[static_cast<size_t>(index)];
  if (shard.split == 1) return chunk_length(extent, ranks, index);
  if (extent == 0) return 0;
  const int64_t piece = ceil_div(extent, shard.split);
  const int64_t whole = extent / piece;
  return whole * chunk_length(piece, ranks, index) +
         chunk_length(extent - whole * piece, ranks, index);
}

// Calls take(start, length) for each stretch of [0, extent) that the rank gets, in order.
template <typename Take>
void for_each_stretch(const Shard& shard, int64_t extent, int64_t ranks, int64_t index, Take take) {
  if (!shard.sizes.empty()) {
    int64_t start = 0;
    for (int64_t i = 0; i < index; ++i) start += shard.sizes[static_cast<size_t>(i)];
    take(start, shard.sizes[static_cast<size_t>(index)]);
    return;
  }
  if (extent == 0) return;
  const int64_t piece = ceil_div(extent, shard.split);
  for (int64_t at = 0; at < extent; at += piece) {
    const int64_t length = std::min(piece, extent - at);
    take(at + index * ceil_div(length, ranks), chunk_length(length, ranks, index));
  }
}

// Where element `local` of what the rank took lies in [0, extent).
inline int64_t place_before_cut(const Shard& shard, int64_t extent, int64_t ranks, int64_t index,
                                int64_t local) {
  if (!shard.sizes.empty()) {
    for (int64_t i = 0; i < index; ++i) local += shard.sizes[static_cast<size_t>(i)];
    return local;
  }
  const int64_t piece = ceil_div(extent, shard.split);
  const int64_t whole = extent / piece;
  const int64_t part = chunk_length(piece, ranks, index);
  if (local < whole * part)
    return local / part * piece + index * ceil_div(piece, ranks) + local % part;
  const int64_t last = extent - whole * piece;
  return whole * piece + index * ceil_div(last, ranks) + local - whole * part;
}

// The extents that some rank may be left with, each once, descending.
std::vector<int64_t> cut_extents(const Shard& shard, const std::vector<int64_t>& extents,
                                 int64_t ranks);

}  // namespace shardproof
