// Strategies of elementwise ops. Any dim of the result may be sharded, on every operand that has
// it. Partials pass where the functor commutes with the reduction *exactly in real arithmetic*.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns factor notation such as "ab,1b,->ab": a letter for each dim of the result, "1" where an
// operand broadcasts.
std::string broadcast_notation(const OpCall& call, const std::vector<TensorMeta>& outputs);

// Returns a strategy for each dim of the result, then one for each rule of `passes`. Rules are left
// out if an input that carries a partial is absent, or its conversion to the result dtype does not
// keep the reduction.
std::vector<Strategy> elementwise_strategies(const OpCall& call,
                                             const std::vector<TensorMeta>& outputs,
                                             const std::vector<PartialPropagation>& passes,
                                             LocalExecution form = LocalExecution::same_op);

// True if the conversion of an input to the result dtype commutes with a reduction. Sums of floats
// do if `to` is wider; sums of integers do if the dtype stays (they wrap). Averages do for floats
// only, because integers truncate. Maxima and minima do if the conversion is monotone.
bool can_convert_partial(ReduceOp op, DType from, DType to);

}  // namespace shardproof
