// copy_segments: copies between two layouts of a tensor that are given, per dim, by segments.
// Split, assemble, pack and unpack are made of it.
#pragma once

#include <cstddef>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/copy_place.h"

namespace shardproof {

struct Segment {  // [from, from + length) of the source goes to [to, to + length) of the target
  int64_t from = 0, to = 0, length = 0;
};
using Segments = std::vector<Segment>;

// Returns the segments from global indices to dense local positions. Example: runs [2, 4) [6, 8)
// give 2 -> 0 and 6 -> 2, each of length 2. scatter_segments returns the inverse.
Segments gather_segments(const Runs& owned);
Segments scatter_segments(const Runs& owned);
// Returns the indices in both lists; `from` and `to` are local positions in the first and second.
// Requires ascending runs.
Segments common_segments(const Runs& source, const Runs& target);
int64_t length(const Segments& segments);  // number of indices
// Returns the global indices in both lists. Requires ascending runs.
Runs common_runs(const Runs& a, const Runs& b);
// Returns their number.
int64_t common_length(const Runs& a, const Runs& b);

// Copies the product of the segments over dims: for each choice of one segment per dim, a box.
// Strides are in elements. Copies nothing if a dim has no segment. Both addresses are in `place`.
void copy_segments(const CopyPlace& place, const std::byte* source, const Dims& source_strides,
                   std::byte* target, const Dims& target_strides,
                   const std::vector<Segments>& by_dim, int64_t element_bytes);

}  // namespace shardproof
