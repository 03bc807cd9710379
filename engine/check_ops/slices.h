// Slices: the index lists of one placed tensor, prepared once. They hold for each rank the global
// position of each local element, and the groups of ranks whose parts reduce to one value. Copies
// and comparisons need no Spec afterwards.
//
// Example: shape [4] as S(0) on an axis of 2 ranks. Rank 0 has the positions 0 1, rank 1 has 2 3;
// each rank is a group. If it is P(sum), both ranks have 0 1 2 3 and form one group.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

struct Slices {
  Spec spec;
  std::vector<Dims> shapes;                     // local, by rank
  std::vector<std::vector<int32_t>> positions;  // by rank: row-major positions in the global tensor
  std::vector<std::vector<int32_t>> groups;     // ranks that hold parts of one value, in order
  std::vector<int32_t> part_of;                 // by rank: its place in its group
  bool is_partial = false;
  Reduction reduction;  // of all partial axes; sum if sum and avg are mixed
  int64_t divisor = 1;  // product of the sizes of the avg axes

  int ranks() const { return static_cast<int>(shapes.size()); }
  int64_t parts() const { return static_cast<int64_t>(groups.front().size()); }
};

// Returns the slices of a spec whose mesh has the ranks 0..n-1.
Slices slices_of(const Spec& spec);

}  // namespace shardproof
