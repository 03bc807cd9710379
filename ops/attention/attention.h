// Calls of sdpa and sdpa_grad: their sizes, and the cuts that both have.
#pragma once

#include <vector>

#include "shardproof/ops/attention/attention_item.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns the sizes of a call whose query, key and value are the inputs from `query` on.
Attention attention_of(const OpCall& call, int query);
// Throws Error(bad_input) for query, key and value that do not fit each other; returns the shape of
// the result.
Dims attention_shape(const char* op, const OpCall& call, int query);
// Returns the shape of lse: that of the query without its last dim.
Dims log_sum_shape(const OpCall& call, int query);
// Returns the multiplications and additions of one product of queries with keys for each dim.
double attention_pairs(const Attention& a);

// A cut of the batch, the heads or the queries on one axis. `rows` places all tensors that have a
// row for each query, `keys` the keys and values.
struct AttentionCut {
  Placement rows, keys;
  LocalExecution form = LocalExecution::same_op;
  ShardLayout layout = ShardLayout::any;
};
std::vector<AttentionCut> attention_cuts(const Attention& a, int dims, int64_t axis_size);

// sdpa_grad; ops/attention/attention_grad.cpp.
OpRecord attention_grad_record();
// causal_mask; ops/attention/attention_causal_mask.cpp.
OpRecord causal_mask_record();

}  // namespace shardproof
