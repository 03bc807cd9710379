// Copies between two layouts of a tensor given, per dim, by stretches: the one primitive of split,
// assemble, pack and unpack.
#pragma once

#include <cstddef>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

struct Segment {  // [from, from + length) of the source goes to [to, to + length) of the target
  int64_t from = 0, to = 0, length = 0;
};
using Segments = std::vector<Segment>;

// From global indices to dense local ones, and back.
Segments gather_segments(const Runs& owned);
Segments scatter_segments(const Runs& owned);
// What lies in both: `from` and `to` are local positions in each.
Segments common_segments(const Runs& source, const Runs& target);
int64_t length(const Segments& segments);
Runs common_runs(const Runs& a, const Runs& b);

// Copies the product of the segments over dims.
void copy_segments(const std::byte* source, const Dims& source_strides, std::byte* target,
                   const Dims& target_strides, const std::vector<Segments>& by_dim,
                   int64_t element_bytes);

}  // namespace shardproof
