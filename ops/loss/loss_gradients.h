// Gradients of cross_entropy, nll_loss and mse_loss.
#pragma once

#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/loss/loss.h"

namespace shardproof {

FormulaTerms class_loss_gradient(Gradient& g, LossKind kind);
// Returns the gradient by the input; the gradient by the target is its negative. `divisor`: count
// by which a mean divides, 1 for a sum.
FormulaTerm mse_gradient(Gradient& g, double divisor);

}  // namespace shardproof
