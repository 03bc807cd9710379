// decompose: makes the parts of a partial value, tensors that reduce to a given one.
#pragma once

#include <vector>

#include "shardproof/localtensor/split/split.h"

namespace shardproof {

// Returns a tensor of the identity of a reduction: 0, 1, the largest or the smallest value. avg has
// no identity; its result is 0.
Tensor identity_like(const Tensor& whole, const Reduction& reduction);

// Returns `count` dense one-device tensors that reduce to `whole` by a left fold. Averages and
// norms of values with all bits may round. Parts may share contents. `unit`: if `whole` is a
// multiple of it, so are the parts of a sum. Averages over another axis then stay exact in any
// order of axes. `shares`: the number of parts that a value has over all axes. Each part may use
// this share of the significand's range, so that sums are exact in any order.
std::vector<Tensor> decompose(const Tensor& whole, const Reduction& reduction, int64_t count,
                              PartialFill fill, uint64_t seed, int64_t unit, int64_t shares);

}  // namespace shardproof
