// Runs one op on one device: dense tensors in, dense tensors out. The reference run and tests use
// it.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns the outputs of the op. `inputs` has one tensor of one lane per input of `call`, null for
// an absent optional input. Strided views are made dense unless the kernel accepts strides. The
// dtype and shape of each tensor must agree with the meta in `call`; a meta may be weak. Throws
// what `infer` throws.
std::vector<Tensor> run_once(const OpRecord& record, const OpCall& call,
                             const std::vector<const Tensor*>& inputs);

}  // namespace shardproof
