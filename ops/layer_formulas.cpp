// Layers and distances that are a few other ops: batch_norm, pooling, conv_transpose1d,
// cosine_similarity, and products of matrices under other names.
#include <algorithm>
#include <cmath>

#include "shardproof/ops/families.h"
#include "shardproof/ops/formula.h"
#include "shardproof/ops/moves.h"

namespace shardproof {
namespace {

using params::integer;
using params::optional_tensor;
using params::tensor;
using Terms = std::vector<FormulaTerm>;
using L = std::vector<int64_t>;

Sample over(const std::vector<Dims>& shapes, Attrs attrs = {}) {
  return sample_of({shapes, DType::f32, {}}, std::move(attrs));
}
FormulaTerm reshaped(Formula& f, const FormulaTerm& x, const L& shape) {
  return f.op("reshape", {x}, {{"shape", shape}});
}
// A tensor of one number a channel, beside [N, C, ..].
FormulaTerm beside_channels(Formula& f, const FormulaTerm& x, int dims) {
  L shape(static_cast<size_t>(dims), 1);
  shape[dims > 1 ? 1 : 0] = element_count(x.shape());
  return reshaped(f, x, shape);
}

// (x - mean) / sqrt(var + eps) over dims.
FormulaTerm centered(Formula& f, const FormulaTerm& x, const L& dims) {
  const Attrs along{{"dim", dims}, {"keepdim", true}};
  const FormulaTerm mean = f.op("mean", {x}, along);
  const FormulaTerm apart = x - mean;
  const FormulaTerm variance = f.op("mean", {f.op("square", {apart})}, along);
  return apart / f.op("sqrt", {variance + f.number("eps").real()});
}

FormulaTerm scaled(Formula& f, FormulaTerm x, int weight, int bias) {
  if (f.has(weight)) x = x * beside_channels(f, f[weight], x.dims());
  if (f.has(bias)) x = x + beside_channels(f, f[bias], x.dims());
  return x;
}

L dims_but(int dims, int but) {
  L all;
  for (int d = 0; d < dims; ++d)
    if (d != but) all.push_back(d);
  return all;
}

Terms batch_norm(Formula& f) {
  const FormulaTerm x = f[0];
  if (x.dims() < 2) f.refuse("needs [N, C, ..]");
  if (f.flag("training")) return {scaled(f, centered(f, x, dims_but(x.dims(), 1)), 3, 4)};
  if (!f.has(1) || !f.has(2)) f.refuse("needs running_mean and running_var, or training=true");
  const FormulaTerm mean = beside_channels(f, f[1], x.dims());
  const FormulaTerm variance = beside_channels(f, f[2], x.dims());
  const FormulaTerm normal = (x - mean) / f.op("sqrt", {variance + f.number("eps").real()});
  return {scaled(f, normal, 3, 4)};
}

Terms group_norm(Formula& f) {
  const FormulaTerm x = f[0];
  const int64_t groups = f.integer("num_groups");
  if (x.dims() < 2 || groups < 1 || x.shape()[1] % groups != 0)
    f.refuse("the channels of dim 1 do not divide into {} groups", groups);
  L split(x.shape().begin(), x.shape().end());
  const L whole = split;
  split[1] = groups;
  split.insert(split.begin() + 2, x.shape()[1] / groups);
  L dims;
  for (int d = 2; d < static_cast<int>(split.size()); ++d) dims.push_back(d);
  const FormulaTerm normal = reshaped(f, centered(f, reshaped(f, x, split), dims), whole);
  return {scaled(f, normal, 1, 2)};
}

void add_norms(OpRegistry& ops) {
  const Param eps = params::number("eps", 1e-5);
  Sample running = over({{5, 3}, {3}, {3}, {3}, {3}});
  running.fills = {"ints", "ints", "uniform(0.5, 2)", "", ""};
  Sample training = over({{4, 3, 2}}, {{"training", true}});
  for (int i = 0; i < 4; ++i) training.inputs.push_back(absent_input());
  ops.add(formula(
      {"batch_norm", "norm", "over all dims but channels (dim 1), or by given moments"},
      {tensor("x"), optional_tensor("running_mean"), optional_tensor("running_var"),
       optional_tensor("weight"), optional_tensor("bias"), params::boolean("training", false), eps},
      batch_norm, {running, training}));
  ops.add(formula(
      {"group_norm", "norm", "over groups of channels (dim 1) of each entry"},
      {tensor("x"), integer("num_groups"), optional_tensor("weight"), optional_tensor("bias"), eps},
      group_norm, {over({{3, 4, 5}, {4}, {4}}, {{"num_groups", int64_t{2}}})}));
}

// ---- pooling ----

L per_dim(Formula& f, const char* name, int spatial, const L& fallback) {
  if (!f.given(name)) return fallback;
  L list = integer_list(*f.call.attrs, name);
  if (list.size() == 1) list.assign(static_cast<size_t>(spatial), list[0]);
  if (static_cast<int>(list.size()) != spatial) f.refuse("{} needs 1 or {} numbers", name, spatial);
  return list;
}

// The last dims as windows: [.., windows.., window..].
struct Windows {
  L size, stride, padding;
  double fill = 0;
};
FormulaTerm windowed(Formula& f, FormulaTerm x, const Windows& windows) {
  const int spatial = static_cast<int>(windows.size.size()), outer = x.dims() - spatial;
  if (outer < 1) f.refuse("needs a dim of channels before {} dims", spatial);
  L pad;
  for (int i = spatial - 1; i >= 0; --i)
    pad.insert(pad.end(), 2, windows.padding[static_cast<size_t>(i)]);
  if (std::any_of(pad.begin(), pad.end(), [](int64_t p) { return p != 0; }))
    x = f.op("pad", {x}, {{"pad", pad}, {"value", windows.fill}});
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    x = f.op(
        "unfold", {x},
        {{"dim", int64_t{outer + i}}, {"size", windows.size[at]}, {"step", windows.stride[at]}});
  }
  return x;
}

Windows windows_of(Formula& f, int spatial) {
  const L size = per_dim(f, "kernel_size", spatial, {});
  return {size, per_dim(f, "stride", spatial, size),
          per_dim(f, "padding", spatial, L(static_cast<size_t>(spatial), 0)), 0};
}

Attrs last_dims(int count) {
  L dims;
  for (int d = -count; d < 0; ++d) dims.push_back(d);
  return {{"dim", dims}, {"keepdim", false}};
}

Terms mean_of_windows(Formula& f, int spatial) {
  if (f.flag("ceil_mode")) f.refuse("ceil_mode is not supported; pad the input instead");
  const Windows windows = windows_of(f, spatial);
  const Attrs over_windows = last_dims(spatial);
  const FormulaTerm mean = f.op("mean", {windowed(f, f[0], windows)}, over_windows);
  if (f.flag("count_include_pad")) return {mean};
  // The share of each window that is no padding.
  L shape = {1};
  for (int i = 0; i < spatial; ++i) shape.push_back(f[0].shape()[f[0].dims() - spatial + i]);
  const FormulaTerm ones =
      f.op("ones", {FormulaTerm{}}, {{"shape", shape}, {"dtype", f[0].dtype()}});
  return {mean / f.op("mean", {windowed(f, ones, windows)}, over_windows)};
}

Terms adaptive_mean(Formula& f, int spatial) {
  FormulaTerm x = f[0];
  const L out = per_dim(f, "output_size", spatial, {});
  if (x.dims() <= spatial) f.refuse("needs a dim of channels before {} dims", spatial);
  for (int i = 0; i < spatial; ++i) {
    const int dim = x.dims() - spatial + i;
    const int64_t size = x.shape()[dim], cells = out[static_cast<size_t>(i)];
    if (cells < 1) f.refuse("output_size must be at least 1, found {}", cells);
    Terms parts;
    for (int64_t c = 0; c < cells; ++c) {
      const int64_t from = c * size / cells, to = ((c + 1) * size + cells - 1) / cells;
      const FormulaTerm cell =
          f.op("narrow", {x}, {{"dim", int64_t{dim}}, {"start", from}, {"length", to - from}});
      parts.push_back(f.op("mean", {cell}, {{"dim", L{dim}}, {"keepdim", true}}));
    }
    x = cells == 1 ? parts[0] : f.joined("cat", parts, dim);
  }
  return {x};
}

void add_pools(OpRegistry& ops) {
  const std::vector<Param> pool = {tensor("x"), params::integers("kernel_size"),
                                   params::optional("stride", ParamKind::integers),
                                   params::optional("padding", ParamKind::integers)};
  for (const int spatial : {1, 2}) {
    const Dims shape = spatial == 1 ? Dims{3, 2, 7} : Dims{2, 3, 5, 4};
    const std::vector<Sample> samples = {
        over({shape}, {{"kernel_size", L{2}}}),
        over({shape}, {{"kernel_size", L{3}}, {"stride", L{2}}, {"padding", L{1}}})};
    std::vector<Param> average = pool;
    average.push_back(params::boolean("ceil_mode", false));
    average.push_back(params::boolean("count_include_pad", true));
    std::vector<Sample> averages = samples;
    averages.push_back(samples[1]);
    averages.back().attrs.set("count_include_pad", false);
    ops.add(formula(
        {spatial == 1 ? "avg_pool1d" : "avg_pool2d", "conv",
         "means of windows; padding counts as 0, or not at all"},
        average, [spatial](Formula& f) { return mean_of_windows(f, spatial); }, averages));
    ops.add(formula(
        {spatial == 1 ? "max_pool1d" : "max_pool2d", "conv", "largest of windows"}, pool,
        [spatial](Formula& f) {
          Windows windows = windows_of(f, spatial);
          windows.fill = -INFINITY;
          return Terms{f.op("amax", {windowed(f, f[0], windows)}, last_dims(spatial))};
        },
        samples));
    ops.add(
        formula({spatial == 1 ? "adaptive_avg_pool1d" : "adaptive_avg_pool2d", "conv",
                 "means of output_size windows that cover the dim"},
                {tensor("x"), params::integers("output_size")},
                [spatial](Formula& f) { return adaptive_mean(f, spatial); },
                {over({shape}, {{"output_size", L{3}}}), over({shape}, {{"output_size", L{1}}})}));
  }
}

// Each input element writes the kernel into the output: a cross-correlation of the input, spread by
// the stride, with the kernel turned round.
Terms conv_transpose1d(Formula& f) {
  FormulaTerm x = f[0], weight = f[1];
  const int64_t stride = f.integer("stride"), padding = f.integer("padding");
  if (x.dims() != 3 || weight.dims() != 3) f.refuse("needs [N, C, L] and [C, O, K]");
  if (stride < 1) f.refuse("stride must be at least 1, found {}", stride);
  const int64_t length = x.shape()[2], reach = weight.shape()[2];
  if (stride > 1 && length > 0) {
    const L spread{x.shape()[0], x.shape()[1], length * stride};
    x = f.op("unsqueeze", {x}, {{"dim", int64_t{3}}});
    x = f.op("pad", {x}, {{"pad", L{0, stride - 1}}, {"value", 0.0}});
    x = f.op("narrow", {reshaped(f, x, spread)},
             {{"dim", int64_t{2}}, {"start", int64_t{0}}, {"length", (length - 1) * stride + 1}});
  }
  const int64_t before = reach - 1 - padding;
  x = f.op("pad", {x}, {{"pad", L{before, before + f.integer("output_padding")}}, {"value", 0.0}});
  weight = f.op("transpose", {weight}, {{"dim0", int64_t{0}}, {"dim1", int64_t{1}}});
  weight = f.op("flip", {weight}, {{"dims", L{2}}});
  return {f.op("conv1d", {x, weight, f[2]})};
}

void add_transposed(OpRegistry& ops) {
  Sample plain = over({{2, 2, 5}, {2, 3, 3}, {3}});
  Sample strided = over({{2, 2, 4}, {2, 3, 3}}, {{"stride", int64_t{2}}, {"padding", int64_t{1}}});
  strided.inputs.push_back(absent_input());
  ops.add(formula({"conv_transpose1d", "conv", "the transposed map of conv1d"},
                  {tensor("x"), tensor("weight"), optional_tensor("bias"), integer("stride", 1),
                   integer("padding", 0), integer("output_padding", 0)},
                  conv_transpose1d, {plain, strided}));
}

// ---- distances ----

FormulaTerm norm_along(Formula& f, const FormulaTerm& x, double p, int dim, bool keep) {
  return f.op("norm", {x}, {{"p", p}, {"dim", L{dim}}, {"keepdim", keep}});
}

void add_distances(OpRegistry& ops) {
  const Param p = params::number("p", 2.0);
  ops.add(formula({"normalize", "norm", "x over its norm along dim, which counts as eps at least"},
                  {tensor("x"), p, integer("dim", 1), params::number("eps", 1e-12)},
                  [](Formula& f) {
                    const FormulaTerm size =
                        norm_along(f, f[0], f.number("p").real(), f.dim(), true);
                    return Terms{f[0] / max_of(size, f.number("eps").real())};
                  },
                  {over({{5, 3}})}));
  ops.add(formula(
      {"renorm", "norm", "x with entries of dim of a norm of maxnorm at most"},
      {tensor("x"), p, integer("dim"), params::required("maxnorm", ParamKind::number)},
      [](Formula& f) {
        const int dim = f.dim();
        const FormulaTerm size = f.op(
            "norm", {f[0]},
            {{"p", f.number("p").real()}, {"dim", dims_but(f[0].dims(), dim)}, {"keepdim", true}});
        const FormulaTerm share = f.number("maxnorm").real() / (size + 1e-7);
        return Terms{f[0] * min_of(share, 1.0)};
      },
      {over({{5, 3}}, {{"dim", int64_t{0}}, {"maxnorm", 1.0}})}));
  ops.add(formula({"cosine_similarity", "norm", "x . y over the product of their norms"},
                  {tensor("x"), tensor("y"), integer("dim", 1), params::number("eps", 1e-8)},
                  [](Formula& f) {
                    const double eps = f.number("eps").real();
                    const int dim = f.dim();
                    const FormulaTerm dot = f.op("sum", {f[0] * f[1]}, {{"dim", L{dim}}});
                    return Terms{dot / (max_of(norm_along(f, f[0], 2, dim, false), eps) *
                                        max_of(norm_along(f, f[1], 2, dim, false), eps))};
                  },
                  {over({{5, 3}, {5, 3}})}));
  ops.add(formula({"dist", "norm", "p-norm of x - y"}, {tensor("x"), tensor("y"), p},
                  [](Formula& f) {
                    return Terms{f.op("norm", {f[0] - f[1]}, {{"p", f.number("p").real()}})};
                  },
                  {over({{5, 3}, {3}})}));
  ops.add(formula({"pairwise_distance", "norm", "p-norms of x - y + eps along the last dim"},
                  {tensor("x"), tensor("y"), p, params::number("eps", 1e-6)},
                  [](Formula& f) {
                    const FormulaTerm apart = f[0] - f[1] + f.number("eps").real();
                    return Terms{
                        norm_along(f, apart, f.number("p").real(), apart.dims() - 1, false)};
                  },
                  {over({{5, 3}, {5, 3}})}));
  ops.add(formula({"cdist", "norm", "p-norms of the distances between all rows of x and of y"},
                  {tensor("x"), tensor("y"), p},
                  [](Formula& f) {
                    const FormulaTerm rows = f.op("unsqueeze", {f[0]}, {{"dim", int64_t{-2}}});
                    const FormulaTerm columns = f.op("unsqueeze", {f[1]}, {{"dim", int64_t{-3}}});
                    const FormulaTerm apart = rows - columns;
                    return Terms{
                        norm_along(f, apart, f.number("p").real(), apart.dims() - 1, false)};
                  },
                  {over({{5, 3}, {4, 3}})}));
}

// beta * x + alpha * (a @ b).
Terms scaled_product(Formula& f, const char* product) {
  const FormulaTerm made = f.op(product, {f[1], f[2]});
  return {f[0] * f.number("beta") + made * f.number("alpha")};
}

void add_products(OpRegistry& ops) {
  const auto pair = [&ops](const char* name, const char* summary, const std::vector<Dims>& shapes) {
    ops.add(formula({name, "matmul", summary}, {tensor("x"), tensor("y")},
                    [](Formula& f) {
                      return Terms{f.op("matmul", {f[0], f[1]})};
                    },
                    {over(shapes)}));
  };
  pair("mm", "x @ y of two matrices", {{5, 3}, {3, 4}});
  pair("mv", "x @ y of a matrix and a row", {{5, 3}, {3}});
  pair("dot", "x @ y of two rows", {{6}, {6}});
  ops.add(formula({"outer", "matmul", "every product of an element of x and one of y"},
                  {tensor("x"), tensor("y")},
                  [](Formula& f) {
                    return Terms{f.op("unsqueeze", {f[0]}, {{"dim", int64_t{1}}}) * f[1]};
                  },
                  {over({{5}, {3}})}));
  const std::vector<Param> three = {tensor("x"), tensor("a"), tensor("b"),
                                    params::with_default("beta", ParamKind::number, int64_t{1}),
                                    params::with_default("alpha", ParamKind::number, int64_t{1})};
  const Attrs scales{{"beta", 0.5}, {"alpha", int64_t{2}}};
  ops.add(formula({"baddbmm", "matmul", "beta * x + alpha * bmm(a, b)"}, three,
                  [](Formula& f) { return scaled_product(f, "bmm"); },
                  {over({{2, 5, 4}, {2, 5, 3}, {2, 3, 4}}, scales)}));
  ops.add(formula({"addmv", "matmul", "beta * x + alpha * (a @ b), b a row"}, three,
                  [](Formula& f) { return scaled_product(f, "matmul"); },
                  {over({{5}, {5, 3}, {3}}, scales)}));
}

}  // namespace

void add_layer_formulas(OpRegistry& ops) {
  add_norms(ops);
  add_pools(ops);
  add_transposed(ops);
  add_distances(ops);
  add_products(ops);
}

}  // namespace shardproof
