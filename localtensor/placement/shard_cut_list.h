// The cuts of one dim in order of application, and extents that follow from them. A set of axes is
// a bit mask: bit a is mesh axis a.
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
  bool operator==(const DimCut&) const = default;
};
using CutList = std::vector<DimCut>;

// Returns the cuts of a dim in the order of the spec.
CutList cuts_of_dim(const Spec& spec, int dim);
// Returns the global indices at each coordinate of the axes; that of the last cut changes first.
std::vector<Runs> owned_runs(const CutList& cuts, int64_t extent);
// Returns the largest extent that a rank gets.
int64_t max_extent(const CutList& cuts, int64_t extent);
// True if after each cut every rank has the same extent.
bool is_even(const CutList& cuts, int64_t extent);
// Returns the largest number of indices that the ranks along the axes of `mask` hold together, over
// all coordinates of the other axes.
int64_t max_joint_extent(const CutList& cuts, int64_t extent, uint64_t mask);

// Returns the largest piece of an exchange over the axes of `mask`. A piece is the set of indices
// that the sender has under `before` and the receiver under `after`. For many pairs of ranks an
// upper bound.
inline constexpr int64_t kMaxPairs = 256;  // more pairs get an upper bound instead
int64_t largest_piece(const CutList& before, const CutList& after, int64_t extent, uint64_t mask);

inline uint64_t mask_of(const std::vector<int>& axes) {
  uint64_t mask = 0;
  for (int axis : axes) mask |= uint64_t{1} << axis;
  return mask;
}

}  // namespace shardproof
