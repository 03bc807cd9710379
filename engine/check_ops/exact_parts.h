// exact_parts: the parts of a partial value for rule checking. Unlike the parts of split.h, each
// part differs from the whole wherever the reduction allows it, and parts use the full range of the
// draw. So a rule that holds only if one rank has the whole value fails.
//
//   reduction        parts of x, over n ranks
//   sum              random numbers, the last is what remains (integers modulo 2^64)
//   avg              the same with the sum n * x
//   prod             floats: factors in +-[0.5, 2]; integers: divisors of x up to 3 with signs, and
//                    zeros if x is 0; of words a drawn rank has +-x, the others +-1
//   min, max         a drawn rank has x, the others a larger (smaller) number
//   band, bor        each bit of x is right on a drawn rank; on the others it may be wrong
//   bxor             random words, the last undoes them
//   norm(p)          |x| by shares that add up to 1, with random signs
//
// Parts of integers narrower than 32 bits do not leave the dtype, so that their sum as floats is
// the same. Those of unsigned ones are not negative.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

// The range of numbers that a draw uses.
enum class PartRange : uint8_t {
  words,  // random 64-bit words
  small,  // signed integers of 21 bits: sums and products keep their order
  tied,   // integers at most 4 from 0, or 2 from the whole; half of the summands are as in `small`
  whole,  // floats that are whole numbers, or halves of them, near 0 or the whole; may be equal
  real,   // floats of the size of the whole
};

// Returns `count` dense one-device tensors that reduce to `whole`. `divisor` is the product of the
// sizes of avg axes. Requires a reduction that the dtype allows. For norm the whole must not be
// negative. Earlier parts in `memory` that have this shape and dtype are overwritten and returned.
std::vector<Tensor> exact_parts(const Tensor& whole, const Reduction& reduction, int64_t count,
                                int64_t divisor, PartRange range, uint64_t seed,
                                std::vector<Tensor> memory = {});

}  // namespace shardproof
