// Elementwise ops of one operand: one row each. A row says how the result's dtype follows and which
// partials pass.
#include <cmath>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/formula.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/activation_functors.h"
#include "shardproof/ops/elementwise/double_functors.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/rounding_functors.h"
#include "shardproof/ops/elementwise/unary_functors.h"

namespace shardproof {
namespace {

enum class Result { same, floating, boolean, real };

// Partials that pass. Grows: non-decreasing on all of its domain, so that it commutes with max and
// min; grows_from_min: NaN below its domain, where only the minimum tells whether all parts lie
// inside.
enum Passing : unsigned {
  kNone = 0,
  kLinear = 1,
  kGrows = 2,
  kGrowsFromMin = 4,
  kFalls = 8,
  kProducts = 16,
  kIntegerProducts = 32  // of integers too, which wrap
};

struct Row {
  const char* name;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  Result result = Result::floating;
  unsigned passing = kNone;
  const char* fill = "";  // extra sample fill that stays in the domain
};

template <typename F>
TypedLoop unary(DType compute) {
  return loop_for<Unary, F>(compute);
}

const Row kRows[] = {
    {"neg", "-x", unary<functor::Neg>, Result::same, kLinear | kFalls},
    {"abs", "|x|", unary<functor::Abs>, Result::real, kProducts},
    {"exp", "e to the x", unary<functor::Exp>, Result::floating, kGrows},
    {"log", "natural logarithm", unary<functor::Log>, Result::floating, kGrowsFromMin,
     "uniform(0.1, 4)"},
    {"sqrt", "square root", unary<functor::Sqrt>, Result::floating, kGrowsFromMin, "uniform(0, 4)"},
    {"rsqrt", "1 / sqrt(x)", unary<functor::Rsqrt>, Result::floating, kNone, "uniform(0.1, 4)"},
    {"square", "x * x", unary<functor::Square>, Result::same, kProducts | kIntegerProducts},
    {"reciprocal", "1 / x", unary<functor::Reciprocal>, Result::floating, kNone, "uniform(0.5, 2)"},
    {"sin", "sine", unary<functor::Sin>},
    {"cos", "cosine", unary<functor::Cos>},
    {"tanh", "hyperbolic tangent", unary<functor::Tanh>, Result::floating, kGrows},
    {"erf", "error function", unary<functor::Erf>, Result::floating, kGrows},
    {"sigmoid", "1 / (1 + exp(-x))", unary<functor::Sigmoid>, Result::floating, kGrows},
    {"relu", "max(x, 0)", unary<functor::Relu>, Result::same, kGrows},
    {"silu", "x * sigmoid(x)", unary<functor::Silu>},
    {"softplus", "log(1 + exp(x))", unary<functor::Softplus>, Result::floating, kGrows},
    {"floor", "largest whole number <= x", unary<functor::Floor>, Result::same, kGrows},
    {"ceil", "smallest whole number >= x", unary<functor::Ceil>, Result::same, kGrows},
    {"round", "nearest whole number, half to even", unary<functor::Round>, Result::same, kGrows},
    {"trunc", "x without its fraction", unary<functor::Trunc>, Result::same, kGrows},
    {"sign", "-1, 0 or 1", unary<functor::Sign>, Result::same, kGrows},
    {"isnan", "x is not a number", unary<functor::IsNan>, Result::boolean},
    {"isinf", "x is infinite", unary<functor::IsInf>, Result::boolean},
    {"sinh", "hyperbolic sine", unary<functor::Sinh>, Result::floating, kGrows},
    {"cosh", "hyperbolic cosine", unary<functor::Cosh>},
    {"tan", "tangent", unary<functor::Tan>},
    {"asin", "inverse sine", unary<functor::Asin>, Result::floating, kNone, "uniform(-0.9, 0.9)"},
    {"acos", "inverse cosine", unary<functor::Acos>, Result::floating, kNone, "uniform(-0.9, 0.9)"},
    {"atan", "inverse tangent", unary<functor::Atan>, Result::floating, kGrows},
    {"asinh", "inverse hyperbolic sine", unary<functor::Asinh>, Result::floating, kGrows},
    {"acosh", "inverse hyperbolic cosine", unary<functor::Acosh>, Result::floating, kGrowsFromMin,
     "uniform(1.1, 4)"},
    {"atanh", "inverse hyperbolic tangent", unary<functor::Atanh>, Result::floating, kNone,
     "uniform(-0.9, 0.9)"},
    {"expm1", "exp(x) - 1", unary<functor::Expm1>, Result::floating, kGrows},
    {"exp2", "2 to the x", unary<functor::Exp2>, Result::floating, kGrows},
    {"log1p", "log(1 + x)", unary<functor::Log1p>, Result::floating, kGrowsFromMin,
     "uniform(-0.5, 4)"},
    {"log2", "logarithm to base 2", unary<functor::Log2>, Result::floating, kGrowsFromMin,
     "uniform(0.1, 4)"},
    {"log10", "logarithm to base 10", unary<functor::Log10>, Result::floating, kGrowsFromMin,
     "uniform(0.1, 4)"},
    {"erfc", "1 - erf(x)", unary<functor::Erfc>, Result::floating, kFalls},
    {"frac", "x without its whole part", unary<functor::Frac>, Result::same},
    {"signbit", "x is below 0, or -0", unary<functor::SignBit>, Result::boolean},
    {"logical_not", "x == 0", unary<functor::LogicalNot>, Result::boolean},
    {"bitwise_not", "all bits inverted", unary<functor::BitwiseNot>, Result::same},
};

bool is_bool_or_integer(DType dtype) { return is_integral(dtype) || dtype == DType::boolean; }

DType compute_of(const Row& row, const OpCall& call) {
  return compute_dtype(row.result == Result::floating ? float_result_dtype(call)
                                                      : result_dtype(call));
}

std::vector<TensorMeta> infer_unary(const Row& row, const OpCall& call) {
  const TensorMeta& x = call.inputs.front();
  DType dtype = result_dtype(call);
  if (!row.loop(compute_of(row, call)).run)
    refuse(row.name, call, "not defined for {}", name(x.dtype));
  if (x.dtype == DType::boolean && row.result == Result::same &&
      std::string_view(row.name) != "bitwise_not")
    refuse(row.name, call, "not defined for bool; cast it first");
  if (row.result == Result::floating) dtype = float_result_dtype(call);
  if (row.result == Result::boolean) dtype = DType::boolean;
  if (row.result == Result::real) dtype = real_part(dtype);
  return {{dtype, x.shape}};
}

Kernel prepare_unary(const Row& row, const OpCall& call) {
  const DType result = result_dtype(call);
  DType compute = compute_of(row, call);
  // ~x of a bool is its negation; of the integer 1 it is -2.
  if (result == DType::boolean && std::string_view(row.name) == "bitwise_not") {
    const TypedLoop loop = unary<functor::LogicalNot>(compute);
    return elementwise_kernel({loop.run, loop.type, {loop.input}, {loop.output}});
  }
  const TypedLoop loop = row.loop(compute);
  return elementwise_kernel({loop.run, loop.type, {loop.input}, {loop.output}});
}

std::vector<Pass> unary_passes(const Row& row, const OpCall& call) {
  std::vector<Pass> passes;
  const bool integer = is_bool_or_integer(call.inputs.front().dtype);
  auto pass = [&](ReduceOp in, ReduceOp out) { passes.push_back({{in}, out}); };
  if (row.passing & kLinear) {
    pass(ReduceOp::sum, ReduceOp::sum);
    pass(ReduceOp::avg, ReduceOp::avg);
  }
  if (row.passing & kGrows) pass(ReduceOp::max, ReduceOp::max);
  if (row.passing & (kGrows | kGrowsFromMin)) pass(ReduceOp::min, ReduceOp::min);
  // The negative of the least integer is itself.
  if ((row.passing & kFalls) && !integer) {
    pass(ReduceOp::max, ReduceOp::min);
    pass(ReduceOp::min, ReduceOp::max);
  }
  // |a b| = |a| |b| holds for the square of wrapped integers, not for their size.
  if (row.passing & (integer ? kIntegerProducts : kProducts)) pass(ReduceOp::prod, ReduceOp::prod);
  return passes;
}

void add_sample(std::vector<Sample>& samples, DType dtype, const Dims& shape, std::string fill) {
  samples.push_back({{}, {{dtype, shape}}, {std::move(fill)}});
}

std::vector<Sample> unary_samples(const Row& row) {
  std::vector<Sample> samples;
  const TypedLoop integers = row.loop(DType::i64);
  const bool only_integers = !row.loop(DType::f32).run;
  const std::string domain = row.fill;
  if (only_integers) {
    add_sample(samples, DType::i32, {5, 3}, "ints");
    add_sample(samples, DType::u8, {4}, "ints");
    add_sample(samples, DType::boolean, {4, 2}, "bools");
    return samples;
  }
  add_sample(samples, DType::f32, {4, 6}, domain.empty() ? "ints" : domain);
  add_sample(samples, DType::f32, {5, 3}, domain.empty() ? "uniform(-3, 3)" : domain);
  add_sample(samples, DType::bf16, {7}, domain.empty() ? "uniform(-3, 3)" : domain);
  add_sample(samples, DType::f64, {2, 1, 3}, domain.empty() ? "uniform(-2, 2)" : domain);
  add_sample(samples, DType::f16, {}, domain.empty() ? "ints" : domain);
  if (integers.run) add_sample(samples, DType::i32, {5, 2}, "ints");
  if (row.result == Result::floating) add_sample(samples, DType::i64, {3, 2}, "ints(1, 5)");
  return samples;
}

OpRecord unary_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "elementwise";
  op.summary = row.summary;
  op.params = {{"x", ParamKind::tensor, true, {}}};
  op.infer = [&row](const OpCall& call) { return infer_unary(row, call); };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>&) {
    return prepare_unary(row, call);
  };
  op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs, unary_passes(row, call));
  };
  op.samples = [&row] { return unary_samples(row); };
  return op;
}

// gelu(x, approximate='none'|'tanh').
const Row kGelu{"gelu", "x * Phi(x)", unary<functor::Gelu>};
const Row kGeluTanh{"gelu", "x * Phi(x)", unary<functor::GeluTanh>};

const Row& gelu_row(const OpCall& call) {
  const std::string kind =
      call.attrs && call.attrs->has("approximate") ? call.attrs->text("approximate") : "none";
  if (kind != "none" && kind != "tanh")
    refuse("gelu", call, "approximate is 'none' or 'tanh', found '{}'", kind);
  return kind == "tanh" ? kGeluTanh : kGelu;
}

OpRecord gelu_record() {
  OpRecord op = unary_record(kGelu);
  op.params.push_back({"approximate", ParamKind::text, false, std::string("none")});
  op.infer = [](const OpCall& call) { return infer_unary(gelu_row(call), call); };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return prepare_unary(gelu_row(call), call);
  };
  op.samples = [] {
    std::vector<Sample> samples = unary_samples(kGelu);
    Sample tanh = samples[1];
    tanh.attrs.set("approximate", std::string("tanh"));
    samples.push_back(tanh);
    return samples;
  };
  return op;
}

// round(x, decimals) in units of 10^-decimals.
void take_decimals(OpRecord& op) {
  op.params.push_back(params::optional("decimals", ParamKind::integer));
  decompose_when(
      op, [](const OpCall& call) { return call.attrs->has("decimals"); },
      [](Formula& f) {
        const auto decimals = static_cast<double>(f.integer("decimals"));
        const double scale = std::pow(10.0, std::fabs(decimals));  // exact, unlike its reciprocal
        if (decimals < 0) return std::vector<FormulaTerm>{f.op("round", {f[0] / scale}) * scale};
        return std::vector<FormulaTerm>{f.op("round", {f[0] * scale}) / scale};
      });
}

// softplus(x, beta, threshold) = softplus(beta x) / beta, and x where beta x is above threshold.
void take_beta(OpRecord& op) {
  op.params.push_back(params::optional("beta", ParamKind::number));
  op.params.push_back(params::optional("threshold", ParamKind::number));
  decompose_when(
      op,
      [](const OpCall& call) { return call.attrs->has("beta") || call.attrs->has("threshold"); },
      [](Formula& f) {
        const double beta = f.given("beta") ? f.number("beta").real() : 1;
        const FormulaTerm scaled = f[0] * beta, soft = f.op("softplus", {scaled}) / beta;
        if (!f.given("threshold")) return std::vector<FormulaTerm>{soft};
        return std::vector<FormulaTerm>{
            f.where(f.op("gt", {scaled, f.number("threshold")}), f[0], soft)};
      });
}

void refuse_bool(const OpCall& call, const std::vector<const Number*>&) {
  if (call.inputs[0].dtype == DType::boolean)
    refuse("abs", call, "not defined for bool; cast it first");
}

}  // namespace

void add_unary_ops(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord op = unary_record(row);
    if (op.name == "round") take_decimals(op);
    if (op.name == "softplus") take_beta(op);
    if (op.name == "softplus" || op.name == "silu") require_float_input(op);
    if (op.name == "abs") op.check = refuse_bool;
    ops.add(std::move(op));
  }
  OpRecord gelu = gelu_record();
  require_float_input(gelu);
  ops.add(std::move(gelu));
}

}  // namespace shardproof
