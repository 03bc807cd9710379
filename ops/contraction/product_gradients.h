// Gradients of products of matrices, written as products.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

GradientRule matmul_gradient();
GradientRule linear_gradient();
GradientRule addmm_gradient();
// einsum: `inputs` and `output` are the letters of the tensors.
FormulaTerms einsum_gradient(Gradient& g, const std::vector<std::string>& inputs,
                             const std::string& output);

}  // namespace shardproof
