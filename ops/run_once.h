// One op on one device: dense tensors in, dense tensors out. What the truth, error bounds of ops
// that only move elements, and tests run. Throws what infer throws.
#pragma once

#include <vector>

#include "shardproof/ops/op.h"

namespace shardproof {

// Inputs: one lane each, null for an absent optional one; strided views are made dense unless the
// kernel takes them. Metas of `call` may be weak; the tensor's dtype and shape must agree with
// them.
std::vector<Tensor> run_once(const OpRecord& record, const OpCall& call,
                             const std::vector<const Tensor*>& inputs);

// The bound of an op that only moves elements (views, where, cat, take_along_dim): the op itself,
// run on the errors of its inputs in place of their values. Index and mask inputs keep their
// values: those of another dtype than every floating or complex output. Of what an index picks that
// hangs on a rounding itself, nothing is said.
std::vector<Bound> moved_bound(const OpRecord& record, const BoundCall& call);

}  // namespace shardproof
