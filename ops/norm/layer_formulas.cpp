// Registers layers, distances and products that decompose: batch_norm, instance_norm, group_norm,
// normalize, cosine_similarity, cdist, mm, outer, baddbmm and others.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

using params::integer;
using params::optional_tensor;
using params::tensor;

// Reshapes a tensor of one number per channel to broadcast with [N, C, ..].
FormulaTerm reshaped_to_channels(Formula& f, const FormulaTerm& x, int dims) {
  IntegerList shape(static_cast<size_t>(dims), 1);
  shape[dims > 1 ? 1 : 0] = element_count(x.shape());
  return reshaped(f, x, shape);
}

// Returns (x - mean) / sqrt(var + eps) over dims.
FormulaTerm centered(Formula& f, const FormulaTerm& x, const IntegerList& dims) {
  const Attrs along{{"dim", dims}, {"keepdim", true}};
  const FormulaTerm mean = f.op("mean", {x}, along);
  const FormulaTerm apart = x - mean;
  const FormulaTerm variance = f.op("mean", {f.op("square", {apart})}, along);
  return apart / f.op("sqrt", {variance + f.number("eps").real()});
}

FormulaTerm with_weight_and_bias(Formula& f, FormulaTerm x, int weight, int bias) {
  if (f.has(weight)) x = x * reshaped_to_channels(f, f[weight], x.dims());
  if (f.has(bias)) x = x + reshaped_to_channels(f, f[bias], x.dims());
  return x;
}

IntegerList dims_but(int dims, int but) {
  IntegerList all;
  for (int d = 0; d < dims; ++d)
    if (d != but) all.push_back(d);
  return all;
}

// Normalizes by the input's own moments over `dims` if the flag named `own` is set, otherwise by
// the given moments.
FormulaTerms norm_by_moments(Formula& f, const char* own, const IntegerList& dims) {
  const FormulaTerm x = f[0];
  if (f.flag(own)) return {with_weight_and_bias(f, centered(f, x, dims), 3, 4)};
  if (!f.has(1) || !f.has(2)) f.refuse("needs running_mean and running_var, or {}=true", own);
  const FormulaTerm mean = reshaped_to_channels(f, f[1], x.dims());
  const FormulaTerm variance = reshaped_to_channels(f, f[2], x.dims());
  const FormulaTerm normal = (x - mean) / f.op("sqrt", {variance + f.number("eps").real()});
  return {with_weight_and_bias(f, normal, 3, 4)};
}

FormulaTerms batch_norm(Formula& f) {
  if (f[0].dims() < 2) f.refuse("expected an input [N, C, ..]");
  return norm_by_moments(f, "training", dims_but(f[0].dims(), 1));
}

FormulaTerms instance_norm(Formula& f) {
  if (f[0].dims() < 3) f.refuse("expected an input [N, C, L, ..]");
  IntegerList dims;
  for (int d = 2; d < f[0].dims(); ++d) dims.push_back(d);
  return norm_by_moments(f, "use_input_stats", dims);
}

FormulaTerms group_norm(Formula& f) {
  const FormulaTerm x = f[0];
  const int64_t groups = f.integer("num_groups");
  if (x.dims() < 2 || groups < 1 || x.shape()[1] % groups != 0)
    f.refuse("the channels of dim 1 do not divide into {} groups", groups);
  IntegerList split(x.shape().begin(), x.shape().end());
  const IntegerList whole = split;
  split[1] = groups;
  split.insert(split.begin() + 2, x.shape()[1] / groups);
  IntegerList dims;
  for (int d = 2; d < static_cast<int>(split.size()); ++d) dims.push_back(d);
  const FormulaTerm normal = reshaped(f, centered(f, reshaped(f, x, split), dims), whole);
  return {with_weight_and_bias(f, normal, 1, 2)};
}

void add_norms(OpRegistry& ops) {
  const Param eps = params::number("eps", 1e-5);
  Sample running = f32_sample({{5, 3}, {3}, {3}, {3}, {3}});
  running.fills = {"ints", "ints", "uniform(0.5, 2)", "", ""};
  Sample training = f32_sample({{4, 3, 2}}, {{"training", true}});
  for (int i = 0; i < 4; ++i) training.inputs.push_back(absent_input());
  std::vector<Param> all = {tensor("x"),
                            optional_tensor("running_mean"),
                            optional_tensor("running_var"),
                            optional_tensor("weight"),
                            optional_tensor("bias"),
                            params::boolean("training", false),
                            params::number("momentum", 0.1),
                            eps};
  ops.add(in_f32(formula(
      {"batch_norm", "norm", "normalizes over all dims but channels (dim 1), or by given moments"},
      all, batch_norm, {running, training})));
  all[5] = params::boolean("use_input_stats", true);
  Sample alone = f32_sample({{2, 3, 5}, {}, {}, {3}, {3}});
  for (const size_t moment : {1, 2}) alone.inputs[moment] = absent_input();
  ops.add(in_f32(formula({"instance_norm", "norm", "normalizes each channel (dim 1) of each entry"},
                         all, instance_norm, {alone})));
  ops.add(in_f32(formula(
      {"group_norm", "norm", "normalizes groups of channels (dim 1) of each entry"},
      {tensor("x"), integer("num_groups"), optional_tensor("weight"), optional_tensor("bias"), eps},
      group_norm, {f32_sample({{3, 4, 5}, {4}, {4}}, {{"num_groups", int64_t{2}}})})));
}

FormulaTerm norm_along(Formula& f, const FormulaTerm& x, double p, int dim, bool keep) {
  return f.op("norm", {x}, {{"p", p}, {"dim", IntegerList{dim}}, {"keepdim", keep}});
}

// Computes norms of narrow floats in f32, as torch does.
FormulaTerms renorm(Formula& f) {
  const DType dtype = f[0].dtype();
  const bool narrow = is_floating(dtype) && dtype != DType::f64 && dtype != DType::f32;
  const FormulaTerm x = narrow ? f.to(DType::f32, f[0]) : f[0];
  const double most = f.number("maxnorm").real();
  const IntegerList others = dims_but(x.dims(), f.dim());
  const FormulaTerm size =
      f.op("norm", {x}, {{"p", f.number("p").real()}, {"dim", others}, {"keepdim", true}});
  // If the norm is NaN, the entry stays unscaled.
  const FormulaTerm share = f.where(f.op("gt", {size, most}), most / (size + 1e-7), 1.0);
  const FormulaTerm scaled = x * share;
  return {scaled.dtype() == dtype ? scaled : f.to(dtype, scaled)};
}

// Repeats both inputs to one shape first, as torch does: the dim counts in that shape.
FormulaTerms cosine_similarity(Formula& f) {
  const Dims shape = broadcast_shape_of("cosine_similarity", f.call);
  const auto repeated = [&](const FormulaTerm& x) {
    if (x.shape() == shape) return x;
    return f.op("expand", {x}, {{"size", IntegerList(shape.begin(), shape.end())}});
  };
  const FormulaTerm x = repeated(f[0]), y = repeated(f[1]);
  const double eps = f.number("eps").real();
  OpCall whole = f.call;
  whole.inputs[0].shape = shape;
  const int dim = dim_of("cosine_similarity", whole, f.integer("dim"));
  const FormulaTerm dot = f.op("sum", {x * y}, {{"dim", IntegerList{dim}}});
  return {dot / (max_of(norm_along(f, x, 2, dim, false), eps) *
                 max_of(norm_along(f, y, 2, dim, false), eps))};
}

void add_norm_distances(OpRegistry& ops) {
  const Param p = params::number("p", 2.0);
  ops.add(formula({"normalize", "norm", "x / max(norm of x along dim, eps)"},
                  {tensor("x"), p, integer("dim", 1), params::number("eps", 1e-12)},
                  [](Formula& f) {
                    const FormulaTerm size =
                        norm_along(f, f[0], f.number("p").real(), f.dim(), true);
                    return FormulaTerms{f[0] / max_of(size, f.number("eps").real())};
                  },
                  {f32_sample({{5, 3}})}));
  ops.add(
      formula({"renorm", "norm", "x with the entries of dim scaled to a norm of maxnorm at most"},
              {tensor("x"), p, integer("dim"), params::required("maxnorm", ParamKind::number)},
              renorm, {f32_sample({{5, 3}}, {{"dim", int64_t{0}}, {"maxnorm", 1.0}})}));
  ops.add(in_f32(formula({"cosine_similarity", "norm", "x . y over the product of their norms"},
                         {tensor("x"), tensor("y"), integer("dim", 1), params::number("eps", 1e-8)},
                         cosine_similarity,
                         {f32_sample({{5, 3}, {5, 3}}), f32_sample({{3, 1}, {2, 3, 4}}),
                          f32_sample({{}, {4}}, {{"dim", int64_t{0}}})})));
  ops.add(formula({"dist", "norm", "p-norm of x - y"}, {tensor("x"), tensor("y"), p},
                  [](Formula& f) {
                    return FormulaTerms{f.op("norm", {f[0] - f[1]}, {{"p", f.number("p").real()}})};
                  },
                  {f32_sample({{5, 3}, {3}})}));
  ops.add(formula(
      {"pairwise_distance", "norm", "p-norms of x - y + eps along the last dim"},
      {tensor("x"), tensor("y"), p, params::number("eps", 1e-6), params::boolean("keepdim", false)},
      [](Formula& f) {
        const FormulaTerm apart = f[0] - f[1] + f.number("eps").real();
        return FormulaTerms{
            norm_along(f, apart, f.number("p").real(), apart.dims() - 1, f.flag("keepdim"))};
      },
      {f32_sample({{5, 3}, {5, 3}})}));
  ops.add(formula({"cdist", "norm", "p-norms of the distances between all rows of x and of y"},
                  {tensor("x"), tensor("y"), p},
                  [](Formula& f) {
                    const FormulaTerm rows = f.op("unsqueeze", {f[0]}, {{"dim", int64_t{-2}}});
                    const FormulaTerm columns = f.op("unsqueeze", {f[1]}, {{"dim", int64_t{-3}}});
                    const FormulaTerm apart = rows - columns;
                    return FormulaTerms{
                        norm_along(f, apart, f.number("p").real(), apart.dims() - 1, false)};
                  },
                  {f32_sample({{5, 3}, {4, 3}})}));
}

// Returns beta * x + alpha * (a @ b). With beta 0 nothing of x is used, not even its NaN.
FormulaTerms scaled_product(Formula& f, const char* product) {
  const FormulaTerm made = f.op(product, {f[1], f[2]});
  const FormulaTerm scaled = made * f.number("alpha");
  if (f.number("beta").real() != 0) return {f[0] * f.number("beta") + scaled};
  if (!(broadcast_shapes(f[0].shape(), made.shape()) == made.shape()))
    f.refuse("x does not broadcast to the product {}", to_string(made.shape()));
  return {scaled};
}

void add_matrix_products(OpRegistry& ops) {
  const auto pair = [&ops](const char* name, const char* summary, const std::vector<Dims>& shapes) {
    ops.add(formula({name, "matmul", summary}, {tensor("x"), tensor("y")},
                    [](Formula& f) {
                      return FormulaTerms{f.op("matmul", {f[0], f[1]})};
                    },
                    {f32_sample(shapes)}));
  };
  pair("mm", "x @ y of two matrices", {{5, 3}, {3, 4}});
  pair("mv", "x @ y of a matrix and a row", {{5, 3}, {3}});
  pair("dot", "x @ y of two rows", {{6}, {6}});
  ops.add(formula({"outer", "matmul", "every product of an element of x and one of y"},
                  {tensor("x"), tensor("y")},
                  [](Formula& f) {
                    return FormulaTerms{f.op("unsqueeze", {f[0]}, {{"dim", int64_t{1}}}) * f[1]};
                  },
                  {f32_sample({{5}, {3}})}));
  const std::vector<Param> three = {tensor("x"), tensor("a"), tensor("b"),
                                    params::with_default("beta", ParamKind::number, int64_t{1}),
                                    params::with_default("alpha", ParamKind::number, int64_t{1})};
  const Attrs scales{{"beta", 0.5}, {"alpha", int64_t{2}}};
  ops.add(formula({"baddbmm", "matmul", "beta * x + alpha * bmm(a, b)"}, three,
                  [](Formula& f) { return scaled_product(f, "bmm"); },
                  {f32_sample({{2, 5, 4}, {2, 5, 3}, {2, 3, 4}}, scales)}));
  ops.add(formula({"addmv", "matmul", "beta * x + alpha * (a @ b), b a row"}, three,
                  [](Formula& f) { return scaled_product(f, "matmul"); },
                  {f32_sample({{5}, {5, 3}, {3}}, scales)}));
}

}  // namespace

void add_layer_formulas(OpRegistry& ops) {
  add_norms(ops);
  add_norm_distances(ops);
  add_matrix_products(ops);
}

}  // namespace shardproof
