// Implements norm_gradients.h. With n = (x - mean) s, s = 1 / sqrt(variance + eps) and h = dy
// weight, layer_norm_grad gives
//
//   dx = s (h - mean(h) - n mean(h n)), dweight = sum over rows of dy n.
//
// rms_norm_grad lacks mean(h). The gradient by the bias is the sum over rows of dy. The gradient of
// dx in the direction v is, by linearity, the same function G of v for h, and by x
//
//   -s n mean(h G(v)) - G(s (v mean(h n) + h mean(v n))).
#include "shardproof/ops/norm/norm_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

IntegerList dims_of_norm(const F& x, int64_t dims) {
  IntegerList last;
  for (int64_t d = x.dims() - dims; d < x.dims(); ++d) last.push_back(d);
  return last;
}

NormMean mean_over(const Formula& f, const IntegerList& dims) {
  return [&f, dims](const F& x) { return f.op("mean", {x}, {{"dim", dims}, {"keepdim", true}}); };
}

F in_dtype(const Formula& f, const F& x, DType dtype) {
  return x.dtype() == dtype ? x : f.to(dtype, x);
}

void add_term(F& sum, const F& term) { sum = sum.handle == kAbsent ? term : sum + term; }

// Gradients of a call dx, dweight = layer_norm_grad(dy, x, weight).
class NormGradGradient {
 public:
  NormGradGradient(Gradient& g, Norm norm, int64_t dims, double eps)
      : g_(g),
        norm_(norm),
        dims_(dims),
        eps_(eps),
        mean_(mean_over(g, dims_of_norm(g[1], dims))),
        wide_(compute_dtype(g[1].dtype())) {
    dy_ = in_dtype(g, g[0], wide_);
    x_ = in_dtype(g, g[1], wide_);
    share_ = g.has(2) ? dy_ * in_dtype(g, g[2], wide_) : dy_;
  }

  FormulaTerms run() {
    found_.assign(g_.call.inputs.size(), g_.none());
    if (g_.has_dy(0)) add_from_dx(in_dtype(g_, g_.dy(0), wide_));
    if (g_.has_dy(1)) add_from_dweight(g_.dy(1));
    return found_;
  }

 private:
  F slope(const F& v) const {
    return g_.op(norm_grad_name(norm_), {v, x_, g_.none()}, {{"dims", dims_}, {"eps", eps_}});
  }
  void add_from_dx(const F& v) {
    const F moved = slope(v);
    if (g_.wanted(0)) add_term(found_[0], g_.has(2) ? moved * in_dtype(g_, g_[2], wide_) : moved);
    if (g_.wanted(1)) add_term(found_[1], bend(v, moved));
    if (g_.has(2) && g_.wanted(2)) add_term(found_[2], dy_ * moved);
  }
  F bend(const F& v, const F& moved) const {
    const NormalTerms at = normal_terms(g_, x_, norm_, eps_, mean_);
    const F turned = v * mean_(share_ * at.normal) + share_ * mean_(v * at.normal);
    return -(at.scale * at.normal * mean_(share_ * moved)) - slope(at.scale * turned);
  }
  void add_from_dweight(const F& u) {
    if (g_.wanted(0)) add_term(found_[0], normal_terms(g_, x_, norm_, eps_, mean_).normal * u);
    if (g_.wanted(1)) add_term(found_[1], slope(dy_ * u));
  }

  Gradient& g_;
  Norm norm_;
  int64_t dims_;
  double eps_;
  NormMean mean_;
  DType wide_;
  F dy_, x_, share_;
  FormulaTerms found_;
};

}  // namespace

const char* norm_grad_name(Norm norm) {
  return norm == Norm::layer ? "layer_norm_grad" : "rms_norm_grad";
}

NormalTerms normal_terms(const Formula& f, F x, Norm norm, double eps, const NormMean& mean) {
  if (norm == Norm::layer) x = x - mean(x);
  const F scale = f.op("rsqrt", {mean(f.op("square", {x})) + eps});
  return {x * scale, scale};
}

F norm_slope(const NormalTerms& terms, const F& share, Norm norm, const NormMean& mean) {
  F moved = share - terms.normal * mean(share * terms.normal);
  if (norm == Norm::layer) moved = moved - mean(share);
  return terms.scale * moved;
}

FormulaTerms norm_gradient(Gradient& g, Norm norm, int64_t dims, double eps) {
  const DType wide = compute_dtype(g[0].dtype());
  FormulaTerms found(g.call.inputs.size(), g.none());
  if (g.wanted(0)) {
    const FormulaTerms both =
        g.ops(norm_grad_name(norm), {g.dy(), g[0], g.has(1) ? g[1] : g.none()},
              {{"dims", dims}, {"eps", eps}});
    found[0] = both[0];
    if (g.has(1)) found[1] = both[1];
  } else if (g.has(1) && g.wanted(1)) {
    const NormMean mean = mean_over(g, dims_of_norm(g[0], dims));
    const NormalTerms terms = normal_terms(g, in_dtype(g, g[0], wide), norm, eps, mean);
    found[1] = in_dtype(g, g.dy(), wide) * terms.normal;
  }
  if (g.has(2) && g.wanted(2)) found[2] = in_dtype(g, g.dy(), wide);
  return found;
}

FormulaTerms norm_grad_gradient(Gradient& g, Norm norm, int64_t dims, double eps) {
  return NormGradGradient(g, norm, dims, eps).run();
}

}  // namespace shardproof
