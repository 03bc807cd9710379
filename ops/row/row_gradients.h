// Gradients of softmax, log_softmax and of running sums, products and extremes along a dim.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

FormulaTerm softmax_gradient(Gradient& g);
FormulaTerm log_softmax_gradient(Gradient& g);
FormulaTerm logcumsumexp_gradient(Gradient& g);
FormulaTerm cumsum_gradient(Gradient& g);
FormulaTerm cumprod_gradient(Gradient& g);
FormulaTerm cumulative_extreme_gradient(Gradient& g);  // cummax, cummin: to the index of the result

}  // namespace shardproof
