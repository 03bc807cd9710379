// One op on one device: dense tensors in, dense tensors out. The truth and tests run it.
// Throws what infer throws.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Inputs: one lane each, null for an absent optional one; strided views are made dense unless the
// kernel takes them. Metas of `call` may be weak; the tensor's dtype and shape must agree with
// them.
std::vector<Tensor> run_once(const OpRecord& record, const OpCall& call,
                             const std::vector<const Tensor*>& inputs);

}  // namespace shardproof
