// Gradients of sdpa and of sdpa_grad.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

FormulaTerms sdpa_gradient(Gradient& g);
// Returns the gradient of sdpa_grad (second order), by a formula that stores the scores.
FormulaTerms sdpa_grad_gradient(Gradient& g);

}  // namespace shardproof
