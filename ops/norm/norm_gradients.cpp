// Implements norm_gradients.h. With n = (x - mean) s, s = 1 / sqrt(variance + eps) and h = dy
// weight: dx = s (h - mean(h) - n mean(h n)); rms_norm lacks mean(h). The gradient of the weight is
// the sum over rows of dy n, that of the bias the sum of dy. All is computed in the compute dtype.
#include "shardproof/ops/norm/norm_gradients.h"

namespace shardproof {

FormulaTerms layer_norm_gradient(Gradient& g, bool centers, int64_t dims, double eps) {
  using F = FormulaTerm;
  const DType wide = compute_dtype(g[0].dtype());
  IntegerList last;
  for (int64_t d = g[0].dims() - dims; d < g[0].dims(); ++d) last.push_back(d);
  const auto widened = [&](const F& x) { return x.dtype() == wide ? x : g.to(wide, x); };
  const auto mean = [&](const F& x) {
    return g.op("mean", {x}, {{"dim", last}, {"keepdim", true}});
  };
  F x = widened(g[0]);
  const F dy = widened(g.dy());
  if (centers) x = x - mean(x);
  const F scale = g.op("rsqrt", {mean(g.op("square", {x})) + eps}), normal = x * scale;
  FormulaTerms found = {g.none(), g.none(), g.none()};
  if (g.wanted(0)) {
    const F share = g.has(1) ? dy * widened(g[1]) : dy;
    F moved = share - normal * mean(share * normal);
    if (centers) moved = moved - mean(share);
    found[0] = scale * moved;
  }
  if (g.has(1) && g.wanted(1)) found[1] = dy * normal;
  if (g.has(2) && g.wanted(2)) found[2] = dy;
  found.resize(g.call.inputs.size(), g.none());
  return found;
}

}  // namespace shardproof
