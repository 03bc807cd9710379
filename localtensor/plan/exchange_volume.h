// The volume of an exchange: the elements that ranks hold after a redistribution and not before.
// No redistribution without partials can move fewer.
//
// Example: dim of 8, axes a=2 and b=2, from "a:S(0)" to "b:S(0)". Rank (a, b) holds half a before
// and half b after. Ranks (0, 0) and (1, 1) miss nothing, the others miss 4 elements each: 2 on
// average.
#pragma once

#include <vector>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/localtensor/placement/shard_cut_list.h"

namespace shardproof {

// One dim before and after a redistribution. The lists must outlive the struct.
struct DimMove {
  int64_t extent = 1;
  const CutList* before = nullptr;
  const CutList* after = nullptr;
};

// Returns the elements that a rank misses, on average over all ranks. Takes time in proportion to
// the product of the sizes of axes that cut one dim, or dims that share axes.
Fraction missing_elements(const std::vector<DimMove>& dims);
Fraction missing_elements(const Spec& from, const Spec& to);

}  // namespace shardproof
