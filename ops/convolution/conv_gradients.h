// Gradients of convolutions.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// The numbers of a convolution, one for each spatial dim.
struct ConvNumbers {
  IntegerList stride, padding, dilation;
  int64_t groups = 1;
};
FormulaTerms conv_gradient(Gradient& g, const ConvNumbers& numbers);

}  // namespace shardproof
