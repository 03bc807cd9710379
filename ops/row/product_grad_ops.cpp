// Registers prod_grad(dy, x, dim) and cumprod_grad(dy, x, dim): the gradients of prod and cumprod
// by x. Both divide by x where it is not 0, and count the zeros. Their own gradients do not divide,
// because a factor of 0 cannot be divided out. They multiply all pairs:
//
//   m[k, j] = 1 if j == k, else x[j]
//
// prod_grad is dy times the products of the rows of m. Entry k of cumprod_grad is the sum over i >=
// k of dy[i] times the running product m[k, 0] .. m[k, i]. torch does the same.
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

F conjugated(Formula& f, const F& x) { return is_complex(x.dtype()) ? f.op("conj", {x}) : x; }
Attrs along_dim(int64_t dim) { return {{"dim", dim}}; }
Attrs summed_away(int64_t dim) { return {{"dim", IntegerList{dim}}, {"keepdim", false}}; }
Attrs summed_to_one(int64_t dim) { return {{"dim", IntegerList{dim}}, {"keepdim", true}}; }

// If x has no zero, the gradient is dy times the product over x. A single zero gets the product of
// the others. If x has two zeros, all elements get 0.
FormulaTerms prod_grad_along(Formula& f, int64_t dim) {
  const F x = f[1], zero = f.op("eq", {x, 0}), others = f.where(zero, 1.0, x);
  const F zeros = f.op("sum", {zero}, summed_to_one(dim));
  const F product = f.op("prod", {others}, summed_to_one(dim));
  const F alone = f.where(zero, f.op("eq", {zeros, 1}), f.op("eq", {zeros, 0}));
  return {f.where(alone, f[0] * conjugated(f, product / others), 0.0)};
}

// The dims one after the other: the products over the last dim are the factors of the rest.
FormulaTerms prod_grad_of_dims(Formula& f) {
  IntegerList dims = integer_list(*f.call.attrs, "dim");
  const int64_t last = dims.back();
  dims.pop_back();
  const F factors = f.op("prod", {f[1]}, summed_to_one(last));
  const F dy = f.op("prod_grad", {f[0], factors}, {{"dim", dims}});
  return {f.op("prod_grad", {dy, f[1]}, {{"dim", IntegerList{last}}})};
}

// Returns the running sum from the last entry to the first.
F summed_from_end(Formula& f, const F& x, int64_t dim) {
  const Attrs dims{{"dims", IntegerList{dim}}};
  return f.op("flip", {f.op("cumsum", {f.op("flip", {x}, dims)}, along_dim(dim))}, dims);
}

// An entry before the first zero gets the sum of dy y from the end, divided by x. The first zero
// gets the same sum with the zero replaced by 1. Entries after it get 0.
FormulaTerms cumprod_grad(Formula& f) {
  const int64_t dim = f.dim();
  const F dy = f[0], x = f[1], zero = f.op("eq", {x, 0});
  const F seen = f.op("cumsum", {zero}, along_dim(dim));
  const F none = f.op("eq", {seen, 0});
  const F first = f.op("logical_and", {zero, f.op("eq", {seen, 1})});
  const F without = conjugated(f, f.op("cumprod", {f.where(first, 1.0, x)}, along_dim(dim)));
  const F divisor = conjugated(f, f.where(zero, 1.0, x));
  const F before = summed_from_end(f, f.where(none, dy * without, 0.0), dim) / divisor;
  const F at = summed_from_end(f, dy * without, dim);
  return {f.where(first, at, f.where(none, before, 0.0))};
}

// The matrix m of a dim: k is at this dim, j behind it.
struct Pairs {
  Pairs(Gradient& g, int64_t dim) : g(g), dim(dim) {
    const F places =
        g.op("cumsum", {g.op("ones", {g[1]}, {{"dtype", DType::i32}})}, along_dim(dim));
    k = behind(places);
    j = before(places);
    same = g.op("eq", {k, j});
    m = g.where(same, 1.0, before(g[1]));
  }
  F behind(const F& x) const { return g.op("unsqueeze", {x}, along_dim(dim + 1)); }
  F before(const F& x) const { return g.op("unsqueeze", {x}, along_dim(dim)); }
  // Returns the gradient by x from that by m.
  F by_x(const F& by_m) const { return g.op("sum", {g.where(same, 0.0, by_m)}, summed_away(dim)); }
  F conj(const F& x) const { return g.conj(x); }

  Gradient& g;
  int64_t dim;
  F k, j, same, m;
};

FormulaTerms prod_grad_gradient(Gradient& g) {
  const int64_t dim = dim_of("prod_grad", g.call, integer_list(*g.call.attrs, "dim").at(0), 1);
  const Pairs pairs(g, dim);
  FormulaTerms found(2, g.none());
  if (g.wanted(0)) found[0] = g.dy() * g.op("prod", {pairs.m}, summed_away(dim + 1));
  if (g.wanted(1)) {
    const F share = pairs.behind(g.conj(g.dy()) * g[0]);
    found[1] = pairs.by_x(g.op("prod_grad", {share, pairs.m}, {{"dim", IntegerList{dim + 1}}}));
  }
  return found;
}

FormulaTerms cumprod_grad_gradient(Gradient& g) {
  const int64_t dim = g.dim("dim", 1);
  const Pairs pairs(g, dim);
  const F reached = g.op("ge", {pairs.j, pairs.k});
  FormulaTerms found(2, g.none());
  if (g.wanted(0)) {
    const F products = g.op("cumprod", {pairs.m}, along_dim(dim + 1));
    const F terms = g.where(reached, pairs.behind(g.dy()) * products, 0.0);
    found[0] = g.op("sum", {terms}, summed_away(dim));
  }
  if (g.wanted(1)) {
    const F share = g.where(reached, pairs.behind(g.conj(g.dy())) * pairs.before(g[0]), 0.0);
    found[1] = pairs.by_x(g.op("cumprod_grad", {share, pairs.m}, along_dim(dim + 1)));
  }
  return found;
}

Sample product_grad_sample(const std::vector<Dims>& shapes, DType dtype, AttrValue dim,
                           const char* fill = "ints(-1, 1)") {
  return sample_of({shapes, dtype, {"uniform(-1, 1)", fill}}, {{"dim", std::move(dim)}});
}

}  // namespace

void add_product_grad_ops(OpRegistry& ops) {
  OpRecord prod = with_gradient(
      formula({"prod_grad", "reduction",
               "dy times the product over dim of all other elements; dim stays in dy, of size 1"},
              {params::tensor("dy"), params::tensor("x"), params::integers("dim")},
              [](Formula& f) {
                const IntegerList dims = integer_list(*f.call.attrs, "dim");
                return prod_grad_along(f, dim_of("prod_grad", f.call, dims.at(0), 1));
              },
              {product_grad_sample({{1, 3}, {5, 3}}, DType::f32, IntegerList{0}),
               product_grad_sample({{2, 1}, {2, 4}}, DType::f64, IntegerList{1}),
               product_grad_sample({{1, 2, 1}, {3, 2, 2}}, DType::f64, IntegerList{0, 2},
                                   "ints(0, 3)")}),
      gradient_together(prod_grad_gradient));
  decompose_when(
      prod, [](const OpCall& call) { return integer_list(*call.attrs, "dim").size() > 1; },
      prod_grad_of_dims);
  ops.add(in_f32(std::move(prod)));
  OpRecord running = with_gradient(
      formula({"cumprod_grad", "reduction", "the gradient by x of cumprod(x, dim), given dy"},
              {params::tensor("dy"), params::tensor("x"), params::integer("dim")}, cumprod_grad,
              {product_grad_sample({{5, 3}, {5, 3}}, DType::f32, int64_t{0}),
               product_grad_sample({{2, 4}, {2, 4}}, DType::f64, int64_t{-1})}),
      gradient_together(cumprod_grad_gradient));
  ops.add(in_f32(std::move(running)));
}

}  // namespace shardproof
