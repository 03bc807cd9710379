// One cut of one dim by one axis: the part of a local extent that rank `index` of `ranks` gets.
// Placements are explained in placement.h.
//
// Example of a strided cut with a short last piece: extent 7, split=2, 2 ranks. Pieces of ceil(7/2)
// = 4: [0, 4) and [4, 7). Rank 0 gets [0, 2) and [4, 6), rank 1 gets [2, 4) and [6, 7): lengths 4,
// 3.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the length of rank `index` by the chunk rule: ceil(extent / ranks); the last ranks get
// less, or nothing. Extent 5 over 4 ranks: 2, 2, 1, 0.
inline int64_t chunk_length(int64_t extent, int64_t ranks, int64_t index) {
  const int64_t piece = ceil_div(extent, ranks);
  return std::clamp<int64_t>(extent - index * piece, 0, piece);
}

// Returns the length that rank `index` gets of `extent`.
inline int64_t cut_length(const Shard& shard, int64_t extent, int64_t ranks, int64_t index) {
  if (!shard.sizes.empty()) return shard.sizes[static_cast<size_t>(index)];
  if (shard.split == 1) return chunk_length(extent, ranks, index);
  if (extent == 0) return 0;
  const int64_t piece = ceil_div(extent, shard.split);
  const int64_t whole = extent / piece;
  return whole * chunk_length(piece, ranks, index) +
         chunk_length(extent - whole * piece, ranks, index);
}

// Calls visit(start, length) for each interval of [0, extent) that the rank gets, in order.
template <typename Visit>
void for_each_stretch(const Shard& shard, int64_t extent, int64_t ranks, int64_t index,
                      Visit visit) {
  if (!shard.sizes.empty()) {
    int64_t start = 0;
    for (int64_t i = 0; i < index; ++i) start += shard.sizes[static_cast<size_t>(i)];
    visit(start, shard.sizes[static_cast<size_t>(index)]);
    return;
  }
  if (extent == 0) return;
  const int64_t piece = ceil_div(extent, shard.split);
  for (int64_t at = 0; at < extent; at += piece) {
    const int64_t length = std::min(piece, extent - at);
    visit(at + index * ceil_div(length, ranks), chunk_length(length, ranks, index));
  }
}

// Returns the position in [0, extent) of element `local` of the rank's part.
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

// Returns the extents that the ranks get when each of `extents` is cut: each once, descending.
std::vector<int64_t> cut_extents(const Shard& shard, const std::vector<int64_t>& extents,
                                 int64_t ranks);

}  // namespace shardproof
