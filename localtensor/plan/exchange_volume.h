// The volume of an exchange: the elements that ranks hold after a redistribution and not before.
// No redistribution without partials can move fewer.
//
// Example: dim of 8, axes a=2 and b=2, from "a:S(0)" to "b:S(0)". Rank (a, b) holds half a before
// and half b after. Ranks (0, 0) and (1, 1) miss nothing, the others miss 4 elements each: 2 on
// average.
#pragma once

#include <span>
#include <vector>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/localtensor/placement/owned_pieces.h"

namespace shardproof {

// One dim before and after a redistribution. The pieces must outlive the struct.
struct DimMove {
  int64_t extent = 1;
  const OwnedPieces *before = nullptr, *after = nullptr;
  uint64_t axes_before = 0, axes_after = 0;  // bit masks of the axes that cut the dim
};

// The axes of a mesh.
struct MeshAxes {
  std::span<const int64_t> sizes;
  const CoordinateBits& bits;  // in which the pieces store their owners
};

// Returns the elements that a rank misses, on average over all ranks. Takes time in proportion to
// the product of the sizes of axes that cut dims that share axes, and to the number of pieces.
Fraction missing_elements(std::span<const DimMove> dims, const MeshAxes& mesh);
Fraction missing_elements(const Spec& from, const Spec& to);

}  // namespace shardproof
