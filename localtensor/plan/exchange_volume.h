// The volume of an exchange: the elements that ranks hold after a redistribution and not before.
// No redistribution without partials can move fewer.
//
// Example: dim of 8, axes a=2 and b=2, from "a:S(0)" to "b:S(0)". Rank (a, b) holds half a before
// and half b after. Ranks (0, 0) and (1, 1) miss nothing, the others miss 4 elements each: 8 in the
// group over a+b.
#pragma once

#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/localtensor/placement/shard_cut_list.h"

namespace shardproof {

// One dim before and after a redistribution. The lists must outlive the struct.
struct DimMove {
  int64_t extent = 1;
  const CutList* before = nullptr;
  const CutList* after = nullptr;
};

// Returns the elements that the ranks of one group miss together: of the group that misses most. A
// group holds the ranks along the axes of `group`; `axis_sizes` are those of the mesh. Takes time
// in proportion to the number of ranks; to that of one group, if all parts are equal.
int64_t missing_elements(const std::vector<DimMove>& dims, const std::vector<int64_t>& axis_sizes,
                         uint64_t group);
int64_t missing_elements(const Spec& from, const Spec& to, uint64_t group);

// True if an exchange over `group` may be planned: each rank counts what it sends to each member,
// and the whole mesh at most 2^20 such counts.
bool can_exchange(const Mesh& mesh, uint64_t group);

}  // namespace shardproof
