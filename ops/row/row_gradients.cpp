// Implements row_gradients.h.
#include "shardproof/ops/row/row_gradients.h"

#include "shardproof/ops/reduction/reduction_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

Attrs along(Gradient& g) { return {{"dim", int64_t{g.dim()}}}; }

F sum_along(Gradient& g, const F& x) {
  return g.op("sum", {x}, {{"dim", IntegerList{g.dim()}}, {"keepdim", true}});
}

// Runs an op along the dim from the last entry to the first.
F backwards(Gradient& g, const char* op, const F& x) {
  const Attrs dims{{"dims", IntegerList{g.dim()}}};
  return g.op("flip", {g.op(op, {g.op("flip", {x}, dims)}, along(g))}, dims);
}

// log of the running sums, from the last entry, of `part` * exp(-y), where part > 0.
F backward_logarithm(Gradient& g, const F& part) {
  const F positive = g.op("gt", {part, 0});
  const F logarithm =
      g.where(positive, g.op("log", {g.where(positive, part, 1.0)}), -params::kInfinity);
  const F y = g.where(g.op("eq", {g.y(), -params::kInfinity}), 0.0, g.y());
  return g.op("exp", {backwards(g, "logcumsumexp", logarithm - y) + g[0]});
}

}  // namespace

F softmax_gradient(Gradient& g) {
  const F product = g.dy() * g.y();
  return product - g.y() * sum_along(g, product);
}

F log_softmax_gradient(Gradient& g) { return g.dy() - g.op("exp", {g.y()}) * sum_along(g, g.dy()); }

// Adds logarithms, because exp(-y) overflows, separately for positive and negative parts of dy.
F logcumsumexp_gradient(Gradient& g) {
  return backward_logarithm(g, g.dy()) - backward_logarithm(g, -g.dy());
}

F cumsum_gradient(Gradient& g) { return backwards(g, "cumsum", g.dy()); }

F cumprod_gradient(Gradient& g) { return g.op("cumprod_grad", {g.dy(), g[0]}, along(g)); }

F cumulative_extreme_gradient(Gradient& g) { return scattered_to(g, g.dy(), g.y(1), g.dim()); }

}  // namespace shardproof
