// Decompositions in wide floats: a composite op of narrow floats computes its intermediate values
// in f32 and rounds the results once, as one kernel does.
//
//   sinc(x), x in bf16      turned = x * pi, wave = sin(turned) / turned, y = where(x == 0, 1,
//   wave)
//
//   _1 = convert_element_type(x, f32)
//   turned = _1 * pi        f32, because its digits matter for the sine
//   wave = sin(turned) / turned
//   wide = where(x == 0, 1, wave)         x == 0 reads x itself: a comparison rounds nothing
//   y = convert_element_type(wide, bf16)
#pragma once

#include <functional>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

using EmitOps = std::function<std::vector<int>(const OpCall&, OpBuilder&)>;

// Emits the ops that `emit` writes for a call, and returns the handles of its results. Floats
// narrower than those that the call computes in are widened where an op would round an intermediate
// value. Results keep the dtypes that `emit` gives them.
std::vector<int> emit_in_wide_floats(const OpCall& call, OpBuilder& builder, const EmitOps& emit);

}  // namespace shardproof
