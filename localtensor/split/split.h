// split and assemble define what a Spec means.
//   assemble(split(x, spec, any fill), spec) == x        (exact laws name their domain below)
#pragma once

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// Which of the many decompositions of a value the ranks of a P axis hold.
enum class PartialFill {
  owner,  // rank 0 of the axis holds the value, others the identity of the reduction
  exact,  // seeded, different on every rank and from the whole, varying in sign; reduces to it
          // exactly where operator, dtype and axis size allow, else falls back to `owner`
  adversarial,  // like exact with large cancelling parts (still exact within the significand)
};

// `global` is one-device (one slot is read). Replicated ranks share one stored copy.
LocalTensor split(const Tensor& global, const Spec& spec, PartialFill fill = PartialFill::owner,
                  uint64_t seed = 0);
// Reads replicas from the first rank that has them; partials are reduced by `reference` in group
// order, over axes in mesh order. Every element must be covered (SP_CHECK).
Tensor assemble(const LocalTensor& locals, const Spec& spec);
// As assemble, without reducing: the parts of one coordinate of the partial axes.
Tensor assemble_part(const LocalTensor& locals, const Spec& spec, const Dims& partial_coordinate);

}  // namespace shardproof
