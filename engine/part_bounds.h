// What the parts of partial sums lose. Rounding follows the size of what is rounded, and the parts
// of a value may be far larger than the value that they add up to: a bound that speaks of the value
// alone would call an honest computation wrong. So a value that lies as P(sum) or P(avg) carries
// the reach of its parts, and ops through which parts pass are bounded at that reach as well.
#pragma once

#include <vector>

#include "shardproof/engine/partition.h"
#include "shardproof/engine/truth.h"
#include "shardproof/ops/op.h"

namespace shardproof {

// Whether an axis holds parts of an average that not all backends make exactly: they may multiply
// each part by 1/n before they add, as NCCL does.
bool scales_inexactly(const Spec& spec, int axis);
ValuesInParts values_in_parts(const GlobalProgram& program, const Partitioned& parts);
// Widens the bound of a value that lies scaled, for when it is reduced.
void widen_for_scaling(const Tensor& value, int64_t parts, Bound& bound);

// Sizes of parts that are multiples of 2^grid, moved by at most one such step so that none hides
// the grid.
void keep_grid_visible(std::vector<double>& reach, int grid);

// Widens the bounds of an op's results, one per output, where that output lies in parts.
void widen_for_parts(const OpRecord& op, const BoundCall& call, const std::vector<bool>& in_parts,
                     std::vector<Bound>& bounds);

}  // namespace shardproof
