// All placements that a rule may name, for exhaustive search, and the tables that a search needs of
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "shardproof/engine/check_ops/slices.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/ops/core/sharding_rule.h"

namespace shardproof {

struct EnumerateOptions {
  bool partials = true;  // P of every reduction that the dtype allows; norm(2) of norms
  bool strided = true;   // S(d, split=2)
};

// Returns every spec of a tensor on a mesh: on each axis R, S(d), strided S(d), P(op). Specs with
// two kinds of partials are left out. An absent tensor or a number is R.
std::vector<Spec> all_placements(const TensorMeta& meta, const Mesh& mesh,
                                 const EnumerateOptions& options);

// The placements that a search tries for one tensor, prepared once: the index lists of each, the
// local shapes, and which ranks hold the same elements. The table depends on the shape and the mesh
// alone, so that searches of any dtype, draw and call share it.
//
// Example: shape [4] on an axis of 2 ranks, placements R, S(0) and P(sum). The local shapes are [4]
// and [2]. Those of shape [4] have three places: one of R, which both ranks share, and two of
// P(sum). Those of shape [2] have two places, of S(0).
struct PlacementTable {
  std::vector<Slices> placements;
  int ranks = 0;
  std::vector<Dims> shapes;          // local, without repetition
  std::vector<int32_t> shape_of;     // by placement and rank: index in `shapes`
  std::vector<int32_t> place_of;     // by placement and rank: its place among those of its shape
  std::vector<int32_t> places;       // by shape: number of places
  std::vector<uint32_t> reductions;  // by placement: reduction_bit() of each partial axis

  size_t size() const { return placements.size(); }
  size_t at(size_t placement, int rank) const {
    return placement * static_cast<size_t>(ranks) + static_cast<size_t>(rank);
  }
};

// Requires specs of one shape and one mesh of the ranks 0..n-1.
PlacementTable table_of(const std::vector<Spec>& specs);

// Tables that searches share. Not thread-safe.
class PlacementTables {
 public:
  // Returns the table of these specs, made once for all dtypes. It stays valid.
  const PlacementTable& table(const std::vector<Spec>& specs);

 private:
  std::deque<PlacementTable> tables_;
};

// Returns the bit of a reduction, and the bits of all that a dtype allows.
constexpr uint32_t reduction_bit(ReduceOp op) { return uint32_t{1} << static_cast<unsigned>(op); }
uint32_t allowed_reductions(DType dtype);

}  // namespace shardproof
