// Gradients of layer_norm and rms_norm, and of the ops that compute them.
#pragma once

#include <functional>

#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/norm/layer_norm.h"

namespace shardproof {

const char* norm_grad_name(Norm norm);  // layer_norm_grad, rms_norm_grad

// The terms of a call norm(x) with the gradient dy, in the compute dtype. normal = (x - mean)
// scale, scale = 1 / sqrt(variance + eps).
struct NormalTerms {
  FormulaTerm normal, scale;
};
// Returns the mean over the normalized dims, which stay as dims of size 1.
using NormMean = std::function<FormulaTerm(const FormulaTerm&)>;
NormalTerms normal_terms(const Formula& f, FormulaTerm x, Norm norm, double eps,
                         const NormMean& mean);
// Returns the gradient by x, where `share` is dy times the weight.
FormulaTerm norm_slope(const NormalTerms& terms, const FormulaTerm& share, Norm norm,
                       const NormMean& mean);

// `dims`: the number of normalized dims.
FormulaTerms norm_gradient(Gradient& g, Norm norm, int64_t dims, double eps);
FormulaTerms norm_grad_gradient(Gradient& g, Norm norm, int64_t dims, double eps);

}  // namespace shardproof
