// Gradients of products of matrices, written as products.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

GradientRule matmul_gradient();
GradientRule linear_gradient();
GradientRule addmm_gradient();

}  // namespace shardproof
