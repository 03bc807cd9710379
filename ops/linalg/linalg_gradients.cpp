// Implements linalg_gradients.h. Formulas: Giles, "Collected matrix derivative results" (2008).
#include "shardproof/ops/linalg/linalg_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

// Returns the transposed matrices, conjugated if they are complex.
F matrix_transposed(Gradient& g, const F& x) { return g.conj(g.op("t", {x})); }
F product(Gradient& g, const F& a, const F& b) { return g.op("matmul", {a, b}); }

}  // namespace

F inverse_gradient(Gradient& g) {
  const F y = matrix_transposed(g, g.y());
  return -product(g, y, product(g, g.dy(), y));
}

FormulaTerms solve_gradient(Gradient& g) {
  const F by_b = g.op("solve", {matrix_transposed(g, g[0]), g.dy()});
  const bool columns = g[1].dims() == g[0].dims();
  const F rows = columns ? by_b : g.op("unsqueeze", {by_b}, {{"dim", int64_t{-1}}});
  const F x = columns ? matrix_transposed(g, g.y())
                      : g.conj(g.op("unsqueeze", {g.y()}, {{"dim", int64_t{-2}}}));
  return {-product(g, rows, x), by_b};
}

// l^-T sym(l^T dy) l^-1 / 2, where sym mirrors the lower triangle. Symmetric, as in torch.
F cholesky_gradient(Gradient& g) {
  const F l = matrix_transposed(g, g.y()), inner = product(g, l, g.dy());
  const F lower = g.op("tril", {inner}),
          strict = g.op("tril", {inner}, {{"diagonal", int64_t{-1}}});
  // The diagonal of a Hermitian matrix is real.
  const F half = is_complex(inner.dtype()) ? (lower + strict) * 0.5 : lower;
  const F other = is_complex(inner.dtype()) ? half : strict;
  const F mirrored = (half + matrix_transposed(g, other)) * 0.5;
  return matrix_transposed(g,
                           g.op("solve", {l, matrix_transposed(g, g.op("solve", {l, mirrored}))}));
}

F det_gradient(Gradient& g) {
  const auto column = [&](const F& x) {
    return g.op("unsqueeze", {g.op("unsqueeze", {x}, {{"dim", int64_t{-1}}})},
                {{"dim", int64_t{-1}}});
  };
  return column(g.dy() * g.conj(g.y())) * matrix_transposed(g, g.op("inverse", {g[0]}));
}

// The transform back, with the same factor: 'forward' of one has the factor of 'backward' of the
// other.
F fft_gradient(Gradient& g, bool inverse) {
  const std::string norm = g.given("norm") ? g.call.attrs->text("norm") : "backward";
  const std::string back = norm == "backward" ? "forward" : norm == "forward" ? "backward" : norm;
  return g.op(inverse ? "fft" : "ifft", {g.dy()}, {{"dim", g.integer("dim")}, {"norm", back}});
}

}  // namespace shardproof
