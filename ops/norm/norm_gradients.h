// Gradients of layer_norm and rms_norm.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// `centers`: the op subtracts the mean; `dims`: the number of normalized dims.
FormulaTerms layer_norm_gradient(Gradient& g, bool centers, int64_t dims, double eps);

}  // namespace shardproof
