// Gradients of the elementwise ops, one line for each op.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// Set the gradient of an op of one operand (of two).
// Returns input i in the dtype of the result, so that a function of it is not rounded to a narrower
// dtype. A number of the program becomes a tensor: functions of numbers are computed in f32.
FormulaTerm in_result_dtype(Formula& f, int i);
void set_unary_gradient(OpRecord& record);
void set_binary_gradient(OpRecord& record);
// Sets the gradient of a composite elementwise op, if that of its decomposition is not torch's or
// is not finite everywhere.
void set_formula_gradient(OpRecord& record);

}  // namespace shardproof
