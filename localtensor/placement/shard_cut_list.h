// The cuts of one dim in order of application, and extents that follow from them. Members of the
// axis set `mask` act together: bit a stands for mesh axis a.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/placement/shard_cut.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

struct DimCut {
  int axis = 0;
  int64_t ranks = 1;
  Shard shard;
};
using CutList = std::vector<DimCut>;

CutList cuts_of_dim(const Spec& spec, int dim);
// The largest extent a rank is left with.
int64_t max_extent(const CutList& cuts, int64_t extent);
// True when every rank is left with the same extent, and that after each cut.
bool is_even(const CutList& cuts, int64_t extent);
// The most that the ranks of `mask` hold together, at any coordinate of the other axes.
int64_t max_joint_extent(const CutList& cuts, int64_t extent, uint64_t mask);

// The most that one of the ranks of `mask` has before and another of them after.
int64_t largest_piece(const CutList& before, const CutList& after, int64_t extent, uint64_t mask);

inline uint64_t mask_of(const std::vector<int>& axes) {
  uint64_t mask = 0;
  for (int axis : axes) mask |= uint64_t{1} << axis;
  return mask;
}

}  // namespace shardproof
