// Parts of a partial value: tensors that reduce to a given one.
#pragma once

#include <vector>

#include "shardproof/localtensor/split/split.h"

namespace shardproof {

// The element that changes nothing (avg has none and is refused): 0, 1, the largest, the smallest.
Tensor identity_like(const Tensor& whole, const Reduction& reduction);

// `count` dense one-device tensors that reduce to `whole` by a left fold. Parts may share bytes.
// Parts of sums are multiples of `unit` where `whole` is one: averages over a further axis then
// stay exact in whatever order the axes are reduced. `shares`: how often what is added to the size
// of one part comes in the parts of `whole` over all axes, so that all of them are exact in any
// order.
std::vector<Tensor> decompose(const Tensor& whole, const Reduction& reduction, int64_t count,
                              PartialFill fill, uint64_t seed, int64_t unit, int64_t shares);

}  // namespace shardproof
