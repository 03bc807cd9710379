// Gradients of the elementwise ops, one line for each op.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// Set the gradient of an op of one operand (of two).
void set_unary_gradient(OpRecord& record);
void set_binary_gradient(OpRecord& record);

}  // namespace shardproof
