// Gradients of reductions.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// Inserts dims of size 1 where the call has reduced input 0, unless it has keepdim. `reduced` has
// the shape of a result of the call.
FormulaTerm with_reduced_dims(Gradient& g, const FormulaTerm& reduced);

FormulaTerm sum_gradient(Gradient& g);
FormulaTerm prod_gradient(Gradient& g);
FormulaTerm mean_gradient(Gradient& g);
FormulaTerm var_gradient(Gradient& g);
FormulaTerm std_gradient(Gradient& g);
FormulaTerm norm_gradient(Gradient& g);
FormulaTerm logsumexp_gradient(Gradient& g);
// Splits dy equally among all elements equal to the result (amax, amin, median of all elements).
FormulaTerm split_among_equal(Gradient& g);
// Gives dy to the elements of input 0 at `indices` along `dim`, which may occur several times.
FormulaTerm scattered_to(Gradient& g, const FormulaTerm& dy, const FormulaTerm& indices, int dim);
// max, min: with one dim, dy is added at the element that the index names. The index is the second
// result of the call, else `argument` (argmax, argmin) computes it. Otherwise split_among_equal().
FormulaTerm extreme_gradient(Gradient& g, const char* argument);

}  // namespace shardproof
