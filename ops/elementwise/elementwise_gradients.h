// Gradients of the elementwise ops, one line for each op.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// Set the gradient of an op of one operand (of two).
void set_unary_gradient(OpRecord& record);
void set_binary_gradient(OpRecord& record);
// Sets the gradient of a composite elementwise op, if that of its decomposition is not torch's or
// is not finite everywhere.
void set_formula_gradient(OpRecord& record);

}  // namespace shardproof
