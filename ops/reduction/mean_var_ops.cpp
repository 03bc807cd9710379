// Registers mean, var, std, norm, logsumexp: reductions that finish with a formula. Over a sharded
// dim, mean and norm give partials. The others lower to partial reductions of their terms, so only
// results are communicated.
#include <algorithm>
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/reduction/mean_var_states.h"
#include "shardproof/ops/reduction/reducers.h"
#include "shardproof/ops/reduction/reduction_gradients.h"

namespace shardproof {
namespace {

template <typename T>
using VarState = VarianceState<T, false>;
template <typename T>
using StdState = VarianceState<T, true>;

enum class MomentKind { mean, var, std, norm, logsumexp };
struct MomentRow {
  const char* name;
  const char* summary;
  MomentKind kind;
};
const MomentRow kMomentRows[] = {
    {"mean", "average over dims", MomentKind::mean},
    {"var", "variance over dims, by n - correction", MomentKind::var},
    {"std", "standard deviation over dims, by n - correction", MomentKind::std},
    {"norm", "(sum |x|^p)^(1/p) over dims", MomentKind::norm},
    {"logsumexp", "log(sum(exp(x))) over dims", MomentKind::logsumexp},
};

std::vector<TensorMeta> infer_moment(const MomentRow& row, const OpCall& call) {
  const DType in = call.inputs[0].dtype;
  const bool converts =
      row.kind == MomentKind::logsumexp && (is_integral(in) || in == DType::boolean);
  if (!is_floating(in) && !converts)
    refuse(row.name, call, "expected a float dtype, found {}; cast it first", name(in));
  const DimMask mask = reduced_dims(row.name, call);
  return {{converts ? kDefaultFloat : in,
           reduced_shape(call.inputs[0].shape, mask, has_keepdim(call))}};
}

template <template <typename> typename S>
Reducer float_reducer(DType compute) {
  return compute == DType::f64 ? ReducerOf<S<double>>::make() : ReducerOf<S<float>>::make();
}

Reducer moment_reducer(MomentKind kind, DType compute) {
  switch (kind) {
    case MomentKind::mean: return float_reducer<MeanState>(compute);
    case MomentKind::var: return float_reducer<VarState>(compute);
    case MomentKind::std: return float_reducer<StdState>(compute);
    case MomentKind::norm: return float_reducer<NormState>(compute);
    case MomentKind::logsumexp: return float_reducer<LogSumExpState>(compute);
  }
  SP_UNREACHABLE("moment {}", static_cast<int>(kind));
}

Kernel prepare_moment(const MomentRow& row, const OpCall& call,
                      const std::vector<TensorMeta>& outputs) {
  const DimMask mask = reduced_dims(row.name, call);
  ReduceNumbers numbers;
  numbers.divisor =
      number_or(call, "count", static_cast<double>(reduced_count(call.inputs[0].shape, mask)));
  numbers.real =
      row.kind == MomentKind::norm ? number_or(call, "p", 2) : number_or(call, "correction", 1);
  return reduce_kernel(moment_reducer(row.kind, compute_dtype(outputs[0].dtype)), numbers,
                       call.inputs[0].shape, mask);
}

std::vector<Strategy> mean_strategies(const OpCall& call, const DimMask& mask) {
  const std::string notation = reduction_notation(call, mask);
  FactorOptions even;
  even.reduction = {ReduceOp::avg, 0};
  even.reduction_needs_even = true;
  even.form = LocalExecution::local_attrs;
  even.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {0});
  std::vector<Strategy> strategies = factor_strategies(notation, even);
  // Uneven shards divide by the global count, so their sum is the mean.
  FactorOptions uneven;
  uneven.reduction = {ReduceOp::sum, 0};
  uneven.form = LocalExecution::local_attrs;
  for (const Strategy& s : factor_strategies(notation, uneven))
    if (s.outputs[0].is_partial()) strategies.push_back(s);
  return strategies;
}

// Returns the attributes of a local mean. Each rank divides its sum so that the reduction over all
// axes gives the mean. The divisor is the global count, divided by the sizes of the cut axes whose
// reduction averages.
Attrs mean_attrs(const OpCall& call, const std::vector<Spec>& inputs,
                 const std::vector<Spec>& outputs) {
  OpCall global = call;
  global.inputs[0].shape = inputs[0].shape();
  double count = number_or(
      call, "count",
      static_cast<double>(reduced_count(inputs[0].shape(), reduced_dims("mean", global))));
  const Spec& out = outputs[0];
  for (int axis = 0; axis < out.mesh().axis_count(); ++axis) {
    const bool cut = inputs[0].placement(axis).is_shard();
    if (cut && out.placement(axis) == P(ReduceOp::avg))
      count /= static_cast<double>(out.mesh().axes()[static_cast<size_t>(axis)].size);
  }
  Attrs attrs = call.attrs ? *call.attrs : Attrs{};
  attrs.set("count", count);
  return attrs;
}

ReduceOp norm_partial(double p) {
  if (std::isinf(p)) return p > 0 ? ReduceOp::max : ReduceOp::min;
  return p == 0 || p == 1 ? ReduceOp::sum : ReduceOp::norm;
}

std::vector<Strategy> norm_strategies(const OpCall& call, const DimMask& mask) {
  const double p = number_or(call, "p", 2);
  FactorOptions options;
  options.reduction = {norm_partial(p), norm_partial(p) == ReduceOp::norm ? p : 0};
  return factor_strategies(reduction_notation(call, mask), options);
}

// A sharded reduced dim is lowered. The result is replicated, except for var: a sum of parts.
std::vector<Strategy> lowered_strategies(const MomentRow& row, const OpCall& call,
                                         const DimMask& mask) {
  std::vector<Strategy> strategies = factor_strategies(reduction_notation(call, mask), {});
  for (Strategy& s : strategies) {
    if (!s.outputs[0].is_partial()) continue;
    s.form = LocalExecution::lower_to_ops;
    s.outputs[0] = row.kind == MomentKind::var ? P(ReduceOp::sum) : R();
  }
  return strategies;
}

int lower_spread(const MomentRow& row, const OpCall& call, LowerBuilder& b) {
  const DType dtype = b.meta(b.input(0)).dtype, wide = compute_dtype(dtype);
  const DimMask mask = reduced_dims(row.name, call);
  const auto count = static_cast<double>(reduced_count(call.inputs[0].shape, mask));
  const double rest = std::max(0.0, count - number_or(call, "correction", 1));
  const int x = dtype == wide ? b.input(0) : b.op("cast", {{"dtype", wide}}, {b.input(0)});
  const int total = b.replicate_partials(b.op("sum", reduction_attrs(mask, true), {x}));
  const int mean = b.op("div", {}, {total, b.number(count)});
  const int squares = b.op("square", {}, {b.op("sub", {}, {x, mean})});
  int result = b.op("sum", reduction_attrs(mask, has_keepdim(call)), {squares});
  result = b.op("div", {}, {result, b.number(rest)});
  if (row.kind == MomentKind::std) result = b.op("sqrt", {}, {b.replicate_partials(result)});
  if (dtype == wide) return result;
  // Rounding each part of a partial sum would add errors, so the sum is reduced first.
  return b.op("cast", {{"dtype", dtype}}, {b.replicate_partials(result)});
}

int lower_logsumexp(const OpCall& call, LowerBuilder& b) {
  const DType in = b.meta(b.input(0)).dtype;
  const DType dtype = is_floating(in) ? in : kDefaultFloat, wide = compute_dtype(dtype);
  const DimMask mask = reduced_dims("logsumexp", call);
  const int x = in == wide ? b.input(0) : b.op("cast", {{"dtype", wide}}, {b.input(0)});
  const int most = b.replicate_partials(b.op("amax", reduction_attrs(mask, true), {x}));
  const int finite = b.op("where", {}, {b.op("isinf", {}, {most}), b.number(0), most});
  const int powers = b.op("exp", {}, {b.op("sub", {}, {x, finite})});
  const int sum = b.replicate_partials(b.op("sum", reduction_attrs(mask, true), {powers}));
  int result = b.op("add", {}, {b.op("log", {}, {sum}), finite});
  // Drops the dims of size 1 that keepdim left, by a sum over one element.
  if (!has_keepdim(call)) result = b.op("sum", reduction_attrs(mask, false), {result});
  return dtype == wide ? result : b.op("cast", {{"dtype", dtype}}, {result});
}

// Powers quickly leave the range of f16 and of 8-bit floats.
bool widens_norm(const OpCall& call) {
  const DType dtype = call.inputs[0].dtype;
  return is_floating(dtype) && max_finite(dtype) < max_finite(DType::bf16) &&
         norm_partial(number_or(call, "p", 2)) == ReduceOp::norm;
}

int lower_norm(const OpCall& call, LowerBuilder& b) {
  const DType dtype = b.meta(b.input(0)).dtype;
  const int wide = b.op("cast", {{"dtype", compute_dtype(dtype)}}, {b.input(0)});
  Attrs attrs = reduction_attrs(reduced_dims("norm", call), has_keepdim(call));
  attrs.set("p", number_or(call, "p", 2));
  const int norm = b.replicate_partials(b.op("norm", std::move(attrs), {wide}));
  return b.op("cast", {{"dtype", dtype}}, {norm});
}

std::vector<Strategy> moment_strategies(const MomentRow& row, const OpCall& call,
                                        const std::vector<TensorMeta>&) {
  const DimMask mask = reduced_dims(row.name, call);
  if (row.kind == MomentKind::mean) return mean_strategies(call, mask);
  if (row.kind == MomentKind::norm && !widens_norm(call)) return norm_strategies(call, mask);
  std::vector<Strategy> strategies = lowered_strategies(row, call, mask);
  const DType dtype = call.inputs[0].dtype;
  if (row.kind == MomentKind::var && compute_dtype(dtype) != dtype)
    for (Strategy& s : strategies)
      if (s.form == LocalExecution::lower_to_ops) s.outputs[0] = R();
  return strategies;
}

std::vector<Sample> moment_samples(const MomentRow& row) {
  std::vector<Sample> samples;
  auto add = [&](DType dtype, const Dims& shape, const std::string& fill, Attrs attrs) {
    samples.push_back({std::move(attrs), {{dtype, shape}}, {fill}});
  };
  using List = std::vector<int64_t>;
  add(DType::f32, {4, 6}, "ints", {});
  add(DType::f32, {5, 3}, "uniform(-1, 1)", {{"dim", List{0}}});
  add(DType::bf16, {3, 2, 4}, "uniform(-1, 1)", {{"dim", List{0, 2}}, {"keepdim", true}});
  add(DType::f64, {7}, "uniform(-1, 1)", {{"dim", List{}}, {"keepdim", true}});
  add(DType::f32, {4, 2}, "ints", {{"dim", List{-1}}, {"keepdim", true}});
  if (row.kind == MomentKind::var || row.kind == MomentKind::std)
    add(DType::f32, {5, 2}, "ints", {{"dim", List{0}}, {"correction", int64_t{0}}});
  add(DType::c64, {5, 2}, "uniform(-1, 1)", {{"dim", List{0}}});
  add(DType::c128, {2, 3}, "uniform(-1, 1)", {{"dim", List{1}}, {"keepdim", true}});
  if (row.kind == MomentKind::norm)
    add(DType::c64, {5, 2}, "uniform(-1, 1)", {{"dim", List{0}}, {"p", 3.0}});
  if (row.kind == MomentKind::norm)
    for (const double p : {0.0, 1.0, 3.0, -1.0, params::kInfinity, -params::kInfinity})
      add(DType::f32, {5, 2}, "ints", {{"dim", List{0}}, {"p", p}});
  return samples;
}

// Adds p='fro' to norm: the 2-norm of all elements of its dims.
void take_frobenius(OpRecord& op) {
  decompose_when(
      op,
      [](const OpCall& call) {
        const auto p = call.attrs->values().find("p");
        return p != call.attrs->values().end() && std::holds_alternative<std::string>(p->second);
      },
      [](Formula& f) {
        if (f.call.attrs->text("p") != "fro")
          f.refuse("p must be a number or 'fro', found '{}'", f.call.attrs->text("p"));
        Attrs attrs = *f.call.attrs;
        attrs.set("p", 2.0);
        return std::vector<FormulaTerm>{f.op("norm", {f[0]}, std::move(attrs))};
      });
}

std::vector<Param> moment_params(const MomentRow& row) {
  std::vector<Param> list = reduction_params();
  if (row.kind == MomentKind::norm)
    list.insert(list.begin() + 1, {"p", ParamKind::number_or_text, false, 2.0});
  if (row.kind == MomentKind::var || row.kind == MomentKind::std)
    list.insert(list.begin() + 2, {"correction", ParamKind::number, false, int64_t{1}});
  // The number that the sum is divided by, in place of the number of elements.
  if (row.kind == MomentKind::mean) list.push_back(params::optional("count", ParamKind::number));
  return list;
}

// A norm of no elements has no value if it is a maximum, a minimum or of a negative p.
void check_norm(const OpCall& call, const std::vector<const Number*>&) {
  const auto p = call.attrs->values().find("p");
  if (p == call.attrs->values().end() || std::holds_alternative<std::string>(p->second)) return;
  if (const double of = call.attrs->number("p"); of < 0 || std::isinf(of))
    require_elements("norm", call);
}

FormulaTerm (*moment_gradient(MomentKind kind))(Gradient&) {
  switch (kind) {
    case MomentKind::mean: return mean_gradient;
    case MomentKind::var: return var_gradient;
    case MomentKind::std: return std_gradient;
    case MomentKind::norm: return norm_gradient;
    case MomentKind::logsumexp: return logsumexp_gradient;
  }
  SP_UNREACHABLE("moment {}", static_cast<int>(kind));
}

int lower_moment(const MomentRow& row, const OpCall& call, LowerBuilder& b) {
  if (row.kind == MomentKind::logsumexp) return lower_logsumexp(call, b);
  return row.kind == MomentKind::norm ? lower_norm(call, b) : lower_spread(row, call, b);
}

Attrs with_kept_dims(Attrs attrs) {
  attrs.set("keepdim", true);
  return attrs;
}

// Subtracts the largest real part first, so that exp() stays in range.
FormulaTerm complex_logsumexp(Formula& f) {
  const FormulaTerm real = f.op("real", {f[0]});
  const auto finite = [&](const Attrs& over) {
    const FormulaTerm most = f.op("amax", {real}, over);
    return f.where(f.op("isinf", {most}), 0.0, most);
  };
  const FormulaTerm powers = f.op("exp", {f[0] - finite(with_kept_dims(f.over()))});
  return f.op("log", {f.op("sum", {powers}, f.over())}) + finite(f.over());
}

// Adds the moments of complex numbers, as in torch: variances and norms are real.
void take_complex(const MomentRow& row, OpRecord& op) {
  decompose_when(
      op, [](const OpCall& call) { return is_complex(call.inputs[0].dtype); },
      [&row](Formula& f) {
        const auto each = [&](const FormulaTerm& x) { return f.op(row.name, {x}, *f.call.attrs); };
        const auto part = [&](const char* name) { return each(f.op(name, {f[0]})); };
        switch (row.kind) {
          case MomentKind::mean: return FormulaTerms{f.op("complex", {part("real"), part("imag")})};
          case MomentKind::var: return FormulaTerms{part("real") + part("imag")};
          case MomentKind::std:
            return FormulaTerms{f.op("sqrt", {f.op("var", {f[0]}, *f.call.attrs)})};
          case MomentKind::norm: return FormulaTerms{part("abs")};
          case MomentKind::logsumexp: return FormulaTerms{complex_logsumexp(f)};
        }
        SP_UNREACHABLE("moment {}", static_cast<int>(row.kind));
      });
  op.decompositions.front().gradient = gradients({moment_gradient(row.kind)});
}

void complete_moment(const MomentRow& row, OpRecord& op) {
  if (row.kind == MomentKind::mean)
    op.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>& in,
                             const std::vector<Spec>& out,
                             int64_t) { return mean_attrs(call, in, out); };
  else
    op.rule.lower = [&row](const OpCall& call, const std::vector<Spec>&, LowerBuilder& b) {
      return std::vector<int>{lower_moment(row, call, b)};
    };
  op.gradient = gradients({moment_gradient(row.kind)});
  if (row.kind == MomentKind::norm) op = with_kinks(std::move(op), "x == 0");
  if (row.kind == MomentKind::norm) op.check = check_norm;
  take_complex(row, op);
  if (row.kind == MomentKind::norm) take_frobenius(op);
  if (row.kind == MomentKind::norm || row.kind == MomentKind::mean) add_dtype_parameter(op);
  if (row.kind == MomentKind::var || row.kind == MomentKind::std) add_unbiased_parameter(op);
}

const OpTable<MomentRow> kMomentTable = {"reduction",    moment_params,     infer_moment,
                                         prepare_moment, moment_strategies, moment_samples,
                                         complete_moment};

}  // namespace

void add_unbiased_parameter(OpRecord& record) {
  record.params.push_back(params::optional("unbiased", ParamKind::boolean));
  decompose_when(
      record, [](const OpCall& call) { return call.attrs->has("unbiased"); },
      [name = record.name](Formula& f) {
        Attrs attrs = *f.call.attrs;
        attrs.set("unbiased", std::monostate{});
        attrs.set("correction", int64_t{f.flag("unbiased")});
        return f.ops(name.c_str(), {f[0]}, std::move(attrs));
      });
}

void add_mean_var_ops(OpRegistry& ops) { add_rows(ops, kMomentTable, kMomentRows); }

}  // namespace shardproof
