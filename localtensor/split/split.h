// split and assemble: define what a Spec means, as values.
//
//   assemble(split(x, spec, any fill), spec) == x    (PartialFill states where that is exact)
//
// Example: x = 1 2 3 4 on "dp=2, tp=2" as "dp:S(0) tp:P(sum)", with the fill `owner`:
//
//            tp 0   tp 1
//     dp 0   1 2    0 0
//     dp 1   3 4    0 0
#pragma once

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// The decomposition of a value that the ranks of a P axis hold.
enum class PartialFill {
  owner,  // rank 0 of the axis holds the value, the others the identity of the reduction
  exact,  // seeded parts that differ between ranks and vary in sign; they reduce to the value,
          // without rounding if operator, dtype and axis size allow it
  adversarial,  // as `exact`, with large parts that cancel
};

// Returns the part of each rank of the spec's mesh. `global` is a one-device tensor with the shape
// and dtype of the spec. Replicas share one stored copy.
LocalTensor split(const Tensor& global, const Spec& spec, PartialFill fill = PartialFill::owner,
                  uint64_t seed = 0);
// Returns the global value as a one-device tensor. Replicas are read from the first rank. Partials
// are reduced in group order, over axes in mesh order. Requires that every element is covered
// (SP_CHECK).
Tensor assemble(const LocalTensor& locals, const Spec& spec);

}  // namespace shardproof
