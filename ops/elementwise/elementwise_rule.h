// Strategies of elementwise ops: any dim of the result may be cut, on every operand that has it;
// and partials pass where the functor commutes with the reduction *exactly in real arithmetic*.
#pragma once

#include <optional>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// "ab,1b,->ab": dims of the result by letters, "1" where an operand broadcasts.
std::string broadcast_notation(const OpCall& call, const std::vector<TensorMeta>& outputs);

// One way for partials to pass: per input the reduction it carries (none: R), and that of every
// output.
struct Pass {
  std::vector<std::optional<ReduceOp>> inputs;
  ReduceOp output;
};

std::vector<Strategy> elementwise_strategies(const OpCall& call,
                                             const std::vector<TensorMeta>& outputs,
                                             const std::vector<Pass>& passes,
                                             LocalExecution form = LocalExecution::same_op);

// Whether the implicit conversion of an input to the result's dtype commutes with a reduction: sums
// of floats when widened, of integers when the dtype stays (they wrap), averages of floats only
// (integers truncate), maxima under any rounding that is monotone.
bool conversion_keeps(ReduceOp op, DType from, DType to);

}  // namespace shardproof
