// Gradients of sdpa and of sdpa_grad.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

FormulaTerms sdpa_gradient(Gradient& g);
// The second order: a formula that stores the scores.
FormulaTerms sdpa_grad_gradient(Gradient& g);

}  // namespace shardproof
