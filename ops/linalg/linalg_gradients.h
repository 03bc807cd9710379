// Gradients of inverse, solve, cholesky, det and of the discrete Fourier transforms.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

FormulaTerm inverse_gradient(Gradient& g);
FormulaTerms solve_gradient(Gradient& g);
FormulaTerm cholesky_gradient(Gradient& g);
FormulaTerm det_gradient(Gradient& g);
FormulaTerm fft_gradient(Gradient& g, bool inverse);

}  // namespace shardproof
