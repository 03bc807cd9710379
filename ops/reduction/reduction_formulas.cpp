// Registers reductions that decompose: aminmax, count_nonzero, nansum, nanmean, var_mean, std_mean,
// vector_norm, median, kthvalue, and bucketize and argsort.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/reduction/reduce_kernel.h"
#include "shardproof/ops/reduction/reduction_gradients.h"

namespace shardproof {
namespace {

using params::integer;
using params::tensor;

Attrs along_rows() { return {{"dim", int64_t{0}}}; }
Attrs last_kept() { return {{"dim", int64_t{-1}}, {"keepdim", true}}; }

OpRecord reduction(const char* name, const char* summary, FormulaBody body) {
  return formula({name, "reduction", summary}, reduction_params(), std::move(body),
                 {f32_sample({{5, 3}}, along_rows()), f32_sample({{2, 3, 4}}, last_kept()),
                  f32_sample({{7}})});
}
void add_reduction(OpRegistry& ops, const char* name, const char* summary, FormulaBody body) {
  ops.add(with_kinks(reduction(name, summary, std::move(body)), "equal elements"));
}
void add_reduction_with_dtype(OpRegistry& ops, const char* name, const char* summary,
                              FormulaBody body) {
  OpRecord record = reduction(name, summary, std::move(body));
  add_dtype_parameter(record);
  ops.add(std::move(record));
}

void add_counts(OpRegistry& ops) {
  add_reduction(ops, "aminmax", "smallest and largest over dims", [](Formula& f) {
    return FormulaTerms{f.op("amin", {f[0]}, f.over()), f.op("amax", {f[0]}, f.over())};
  });
  add_reduction(ops, "count_nonzero", "elements that are not 0, over dims", [](Formula& f) {
    return FormulaTerms{f.op("sum", {f.op("ne", {f[0], 0})}, f.over())};
  });
  add_reduction_with_dtype(
      ops, "nansum", "sum over dims of all numbers that are not NaN", [](Formula& f) {
        if (!is_floating(f[0].dtype())) return FormulaTerms{f.op("sum", {f[0]}, f.over())};
        return FormulaTerms{f.op("sum", {f.where(f.op("isnan", {f[0]}), 0.0, f[0])}, f.over())};
      });
  add_reduction_with_dtype(
      ops, "nanmean", "mean over dims of all numbers that are not NaN", [](Formula& f) {
        if (!is_floating(f[0].dtype()))
          f.refuse("expected a float dtype, found {}", name(f[0].dtype()));
        const FormulaTerm missing = f.op("isnan", {f[0]});
        const FormulaTerm sum = f.op("sum", {f.where(missing, 0.0, f[0])}, f.over());
        return FormulaTerms{sum / f.op("sum", {f.op("logical_not", {missing})}, f.over())};
      });
}

void add_spreads(OpRegistry& ops) {
  std::vector<Param> spread = reduction_params();
  spread.insert(spread.begin() + 2,
                params::with_default("correction", ParamKind::number, int64_t{1}));
  for (const char* kind : {"var", "std"}) {
    const bool var = std::string_view(kind) == "var";
    OpRecord record =
        formula({var ? "var_mean" : "std_mean", "reduction",
                 var ? "variance and mean over dims" : "standard deviation and mean over dims"},
                spread,
                [kind](Formula& f) {
                  Attrs attrs = f.over();
                  attrs.set("correction", f.call.attrs->values().find("correction")->second);
                  return FormulaTerms{f.op(kind, {f[0]}, attrs), f.op("mean", {f[0]}, f.over())};
                },
                {f32_sample({{5, 3}}, along_rows()), f32_sample({{2, 6}}, last_kept())});
    add_unbiased_parameter(record);
    ops.add(std::move(record));
  }
  std::vector<Param> norm = reduction_params();
  norm.insert(norm.begin() + 1, params::number("ord", 2.0));
  OpRecord vector =
      formula({"vector_norm", "reduction", "(sum |x|^ord)^(1/ord) over dims"}, norm,
              [](Formula& f) {
                Attrs attrs = f.over();
                attrs.set("p", f.number("ord").real());
                return FormulaTerms{f.op("norm", {f[0]}, attrs)};
              },
              {f32_sample({{5, 3}}, {{"ord", 3.0}, {"dim", int64_t{0}}}), f32_sample({{7}})});
  add_dtype_parameter(vector);
  ops.add(std::move(vector));
}

// Returns the k-th smallest element along a dim (the first is 1), and its index.
FormulaTerms kth(Formula& f, const FormulaTerm& x, int dim, int64_t k, bool keepdim) {
  FormulaTerms found;
  for (const FormulaTerm& sorted : f.ops("sort", {x}, {{"dim", int64_t{dim}}})) {
    const FormulaTerm one = f.op("select", {sorted}, {{"dim", int64_t{dim}}, {"index", k - 1}});
    found.push_back(keepdim ? f.op("unsqueeze", {one}, {{"dim", int64_t{dim}}}) : one);
  }
  return found;
}

FormulaTerm flat(Formula& f, const FormulaTerm& x) {
  return f.op("reshape", {x}, {{"shape", std::vector<int64_t>{element_count(x.shape())}}});
}

// A NaN sorts last; it makes the median NaN.
FormulaTerms median(Formula& f) {
  if (!f.given("dim")) {
    const FormulaTerm x = flat(f, f[0]);
    const int64_t count = x.shape()[0];
    if (count == 0) f.refuse("needs at least one element");
    const FormulaTerm middle = kth(f, x, 0, (count + 1) / 2, false)[0];
    const FormulaTerm last = f.op("amax", {x});
    return {f.where(f.op("isnan", {last}), last, middle)};
  }
  const int dim = f.dim();
  const int64_t size = f[0].shape()[dim];
  if (size == 0) f.refuse("needs at least one element");
  const bool keep = f.flag("keepdim");
  FormulaTerms found = kth(f, f[0], dim, (size + 1) / 2, keep);
  const Attrs along{{"dim", int64_t{dim}}, {"keepdim", keep}};
  const FormulaTerm largest = f.op("amax", {f[0]}, along), missing = f.op("isnan", {largest});
  found[0] = f.where(missing, largest, found[0]);
  found[1] = f.where(missing, f.op("argmax", {f[0]}, along), found[1]);
  return found;
}

void add_orders(OpRegistry& ops) {
  const Param dim = params::optional("dim", ParamKind::integer);
  const Param keep = params::boolean("keepdim", false);
  OpRecord middle = formula(
      {"median", "reduction", "the lower median of all elements, or along dim with its index"},
      {tensor("x"), dim, keep}, median,
      {f32_sample({{5, 4}}, along_rows()), f32_sample({{2, 3}}, last_kept()), f32_sample({{6}})});
  // Without a dim, torch splits the gradient among the elements equal to the median.
  decompose_when(
      middle, [](const OpCall& call) { return !call.attrs->has("dim"); }, median);
  middle.decompositions.front().gradient = gradients({split_among_equal});
  accept_scalar_input(middle);
  ops.add(with_kinks(std::move(middle), "equal elements"));
  OpRecord kthvalue =
      formula({"kthvalue", "reduction", "the k-th smallest along dim, and its index"},
              {tensor("x"), integer("k"), integer("dim", -1), keep},
              [](Formula& f) {
                const int along = f.dim();
                const int64_t k = f.integer("k"), size = f[0].shape()[along];
                if (k < 1 || k > size) f.refuse("k must be from 1 to {}, found {}", size, k);
                return kth(f, f[0], along, k, f.flag("keepdim"));
              },
              {f32_sample({{5, 3}}, {{"k", int64_t{2}}, {"dim", int64_t{0}}})});
  accept_scalar_input(kthvalue);
  ops.add(with_kinks(std::move(kthvalue), "equal elements"));
  // Counts the boundaries below x, with `right` also those equal to x; all of them if x is NaN.
  ops.add(formula(
      {"bucketize", "index", "the number of the bucket between sorted boundaries that holds x"},
      {tensor("x"), tensor("boundaries"), params::boolean("right", false),
       params::boolean("out_int32", false)},
      [](Formula& f) {
        const FormulaTerm x = f.op("unsqueeze", {f[0]}, {{"dim", int64_t{-1}}});
        const FormulaTerm behind = f.op(f.flag("right") ? "gt" : "ge", {f[1], x});
        const FormulaTerm count =
            f.op("sum", {f.op("logical_not", {behind})}, {{"dim", int64_t{-1}}});
        return FormulaTerms{f.flag("out_int32") ? f.to(DType::i32, count) : count};
      },
      {f32_sample({{5, 3}, {4}})}));
  ops.add(
      formula({"argsort", "index", "indices that sort a dim; stable"},
              {tensor("x"), integer("dim", -1), params::boolean("descending", false),
               params::boolean("stable", true)},
              [](Formula& f) { return FormulaTerms{f.ops("sort", {f[0]}, *f.call.attrs).at(1)}; },
              {f32_sample({{5, 3}}, along_rows())}));
}

}  // namespace

void add_reduction_formulas(OpRegistry& ops) {
  add_counts(ops);
  add_spreads(ops);
  add_orders(ops);
}

}  // namespace shardproof
