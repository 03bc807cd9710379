// Registers the elementwise ops of one operand (exp, sqrt, cos, abs, logical_not, gelu, ...), one
// table row each. A row states the result dtype and the reductions whose partials pass.
// round(decimals) and softplus(beta, threshold) decompose into the plain op.
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/activation_functors.h"
#include "shardproof/ops/elementwise/double_functors.h"
#include "shardproof/ops/elementwise/elementwise_gradients.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/rounding_functors.h"
#include "shardproof/ops/elementwise/unary_functors.h"

namespace shardproof {
namespace {

enum class UnaryResult { same, floating, boolean, real };

// Reductions whose partials pass. kGrows: the function is non-decreasing on all of its domain, so
// it commutes with max and min. kGrowsFromMin: it is NaN below its domain; only the minimum shows
// if all parts are inside.
enum Passing : unsigned {
  kNone = 0,
  kLinear = 1,
  kGrows = 2,
  kGrowsFromMin = 4,
  kFalls = 8,
  kProducts = 16,
  kIntegerProducts = 32  // for integers too, which wrap
};

// Inputs that an op rejects or handles in its own way.
enum UnaryTrait : unsigned {
  kPlain = 0,
  kFloatsOnly = 1,   // a program may not give it integers or bools, as in torch
  kNoBool = 2,       // a program may not give it bools
  kNegatesBool = 4,  // bools are negated logically
  kPassesBool = 8,   // bools stay as they are
  kRoundsOnce = 16,  // follows the thread's rounding direction; other functions may not
};

struct UnaryRow {
  const char* name;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  UnaryResult result = UnaryResult::floating;
  unsigned passing = kNone;
  const char* fill = "";  // sample values inside the domain; "": any values
  unsigned traits = kPlain;
  void (*add_forms)(OpRecord&) = nullptr;  // adds parameters and decompositions
};

template <typename F>
TypedLoop unary(DType compute) {
  return loop_for<Unary, F>(compute);
}

// Adds decimals: round(x, decimals) rounds to multiples of 10^-decimals.
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
  compute_in_f32(op, [](const OpCall& call) { return call.attrs->has("decimals"); });
}

// Adds beta and threshold: softplus(beta x) / beta, and x where beta x is above threshold.
void take_beta(OpRecord& op) {
  op.params.push_back(params::optional("beta", ParamKind::number));
  op.params.push_back(params::optional("threshold", ParamKind::number));
  const auto scales = [](const OpCall& call) {
    return call.attrs->has("beta") || call.attrs->has("threshold");
  };
  decompose_when(op, scales, [](Formula& f) {
    const double beta = f.given("beta") ? f.number("beta").real() : 1;
    const FormulaTerm scaled = f[0] * beta, soft = f.op("softplus", {scaled}) / beta;
    if (!f.given("threshold")) return std::vector<FormulaTerm>{soft};
    return std::vector<FormulaTerm>{
        f.where(f.op("gt", {scaled, f.number("threshold")}), f[0], soft)};
  });
  compute_in_f32(op, scales);
}

const UnaryRow kUnaryRows[] = {
    {"neg", "-x", unary<functor::Neg>, UnaryResult::same, kLinear | kFalls},
    {"stop", "x, through which no gradient goes (torch: detach)", unary<functor::Identity>,
     UnaryResult::same, kLinear | kGrows, "", kPassesBool},
    {"conj", "complex conjugate; x itself if it is real", unary<functor::Conj>, UnaryResult::same,
     kLinear, "", kPassesBool},
    {"abs", "|x|", unary<functor::Abs>, UnaryResult::real, kProducts, "", kNoBool},
    {"exp", "e to the x", unary<functor::Exp>, UnaryResult::floating, kGrows},
    {"log", "natural logarithm", unary<functor::Log>, UnaryResult::floating, kGrowsFromMin,
     "uniform(0.1, 4)"},
    {"sqrt", "square root", unary<functor::Sqrt>, UnaryResult::floating, kGrowsFromMin,
     "uniform(0, 4)", kRoundsOnce},
    {"rsqrt", "1 / sqrt(x)", unary<functor::Rsqrt>, UnaryResult::floating, kNone,
     "uniform(0.1, 4)"},
    {"square", "x * x", unary<functor::Square>, UnaryResult::same, kProducts | kIntegerProducts},
    {"reciprocal", "1 / x", unary<functor::Reciprocal>, UnaryResult::floating, kNone,
     "uniform(-2, 2)", kRoundsOnce},
    {"sin", "sine", unary<functor::Sin>},
    {"cos", "cosine", unary<functor::Cos>},
    {"tanh", "hyperbolic tangent", unary<functor::Tanh>, UnaryResult::floating, kGrows},
    {"erf", "error function", unary<functor::Erf>, UnaryResult::floating, kGrows},
    {"sigmoid", "1 / (1 + exp(-x))", unary<functor::Sigmoid>, UnaryResult::floating, kGrows},
    {"relu", "max(x, 0)", unary<functor::Relu>, UnaryResult::same, kGrows},
    {"silu", "x * sigmoid(x)", unary<functor::Silu>, UnaryResult::floating, kNone, "", kFloatsOnly},
    {"softplus", "log(1 + exp(x))", unary<functor::Softplus>, UnaryResult::floating, kGrows, "",
     kFloatsOnly, take_beta},
    {"floor", "largest whole number <= x", unary<functor::Floor>, UnaryResult::same, kGrows},
    {"ceil", "smallest whole number >= x", unary<functor::Ceil>, UnaryResult::same, kGrows},
    {"round", "nearest whole number, half to even", unary<functor::Round>, UnaryResult::same,
     kGrows, "", kPlain, take_decimals},
    {"trunc", "x without its fraction", unary<functor::Trunc>, UnaryResult::same, kGrows},
    {"sign", "-1, 0 or 1", unary<functor::Sign>, UnaryResult::same, kGrows, "", kPassesBool},
    {"isnan", "x is not a number", unary<functor::IsNan>, UnaryResult::boolean},
    {"isinf", "x is infinite", unary<functor::IsInf>, UnaryResult::boolean},
    {"sinh", "hyperbolic sine", unary<functor::Sinh>, UnaryResult::floating, kGrows},
    {"cosh", "hyperbolic cosine", unary<functor::Cosh>},
    {"tan", "tangent", unary<functor::Tan>},
    {"asin", "inverse sine", unary<functor::Asin>, UnaryResult::floating, kNone,
     "uniform(-0.9, 0.9)"},
    {"acos", "inverse cosine", unary<functor::Acos>, UnaryResult::floating, kNone,
     "uniform(-0.9, 0.9)"},
    {"atan", "inverse tangent", unary<functor::Atan>, UnaryResult::floating, kGrows},
    {"asinh", "inverse hyperbolic sine", unary<functor::Asinh>, UnaryResult::floating, kGrows},
    {"acosh", "inverse hyperbolic cosine", unary<functor::Acosh>, UnaryResult::floating,
     kGrowsFromMin, "uniform(1.1, 4)"},
    {"atanh", "inverse hyperbolic tangent", unary<functor::Atanh>, UnaryResult::floating, kNone,
     "uniform(-0.9, 0.9)"},
    {"expm1", "exp(x) - 1", unary<functor::Expm1>, UnaryResult::floating, kGrows},
    {"exp2", "2 to the x", unary<functor::Exp2>, UnaryResult::floating, kGrows},
    {"log1p", "log(1 + x)", unary<functor::Log1p>, UnaryResult::floating, kGrowsFromMin,
     "uniform(-0.5, 4)"},
    {"log2", "logarithm to base 2", unary<functor::Log2>, UnaryResult::floating, kGrowsFromMin,
     "uniform(0.1, 4)"},
    {"log10", "logarithm to base 10", unary<functor::Log10>, UnaryResult::floating, kGrowsFromMin,
     "uniform(0.1, 4)"},
    {"erfc", "1 - erf(x)", unary<functor::Erfc>, UnaryResult::floating, kFalls},
    {"frac", "x without its whole part", unary<functor::Frac>, UnaryResult::same},
    {"signbit", "x is below 0, or -0", unary<functor::SignBit>, UnaryResult::boolean},
    {"logical_not", "x == 0", unary<functor::LogicalNot>, UnaryResult::boolean},
    {"bitwise_not", "all bits inverted", unary<functor::BitwiseNot>, UnaryResult::same, kNone, "",
     kNegatesBool},
};

bool is_bool_or_integer(DType dtype) { return is_integral(dtype) || dtype == DType::boolean; }

DType compute_of(const UnaryRow& row, const OpCall& call) {
  return compute_dtype(row.result == UnaryResult::floating ? float_result_dtype(call)
                                                           : result_dtype(call));
}

std::vector<TensorMeta> infer_unary(const UnaryRow& row, const OpCall& call) {
  const TensorMeta& x = call.inputs.front();
  DType dtype = result_dtype(call);
  if (!row.loop(compute_of(row, call)).run)
    refuse(row.name, call, "not defined for {}", name(x.dtype));
  if (x.dtype == DType::boolean && row.result == UnaryResult::same &&
      !(row.traits & (kNegatesBool | kPassesBool)))
    refuse(row.name, call, "not defined for bool; cast it first");
  if (row.result == UnaryResult::floating) dtype = float_result_dtype(call);
  if (row.result == UnaryResult::boolean) dtype = DType::boolean;
  if (row.result == UnaryResult::real) dtype = component_dtype(dtype);
  return {{dtype, x.shape}};
}

Kernel prepare_unary(const UnaryRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  const DType result = result_dtype(call);
  DType compute = compute_of(row, call);
  // ~x of a bool is its negation, but ~1 of an integer is -2.
  if (result == DType::boolean && (row.traits & kNegatesBool)) {
    const TypedLoop loop = unary<functor::LogicalNot>(compute);
    return elementwise_kernel({loop.run, loop.type, {loop.input}, {loop.output}});
  }
  const TypedLoop loop = row.loop(compute);
  ElementwisePlan plan{loop.run, loop.type, {loop.input}, {loop.output}};
  const bool once = (row.traits & kRoundsOnce) && !is_complex(result);
  plan.by_library = row.result == UnaryResult::floating && !once;
  return elementwise_kernel(plan);
}

std::vector<PartialPropagation> unary_passes(const UnaryRow& row, const OpCall& call) {
  std::vector<PartialPropagation> passes;
  const bool integer = is_bool_or_integer(call.inputs.front().dtype);
  auto pass = [&](ReduceOp in, ReduceOp out) { passes.push_back({{in}, out}); };
  if (row.passing & kLinear) {
    pass(ReduceOp::sum, ReduceOp::sum);
    pass(ReduceOp::avg, ReduceOp::avg);
  }
  if (row.passing & kGrows) pass(ReduceOp::max, ReduceOp::max);
  if (row.passing & (kGrows | kGrowsFromMin)) pass(ReduceOp::min, ReduceOp::min);
  // Not for integers: the negative of the least integer is itself.
  if ((row.passing & kFalls) && !integer) {
    pass(ReduceOp::max, ReduceOp::min);
    pass(ReduceOp::min, ReduceOp::max);
  }
  // |a b| = |a| |b| holds for the square of wrapped integers, but not for their absolute value.
  if (row.passing & (integer ? kIntegerProducts : kProducts)) pass(ReduceOp::prod, ReduceOp::prod);
  return passes;
}

void add_sample(std::vector<Sample>& samples, DType dtype, const Dims& shape, std::string fill) {
  samples.push_back({{}, {{dtype, shape}}, {std::move(fill)}});
}

std::vector<Sample> unary_samples(const UnaryRow& row) {
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
  if (row.traits & kPassesBool) add_sample(samples, DType::boolean, {4, 2}, "bools");
  if (row.result == UnaryResult::floating) add_sample(samples, DType::i64, {3, 2}, "ints(1, 5)");
  if (row.loop(DType::c64).run) {
    add_sample(samples, DType::c64, {5, 3}, domain.empty() ? "uniform(-2, 2)" : domain);
    add_sample(samples, DType::c128, {2, 1, 3}, domain.empty() ? "uniform(-2, 2)" : domain);
  }
  return samples;
}

void complete_unary(const UnaryRow& row, OpRecord& op) {
  if (row.traits & kFloatsOnly) require_float_input(op);
  if (row.traits & kNoBool)
    op.check = [&row](const OpCall& call, const std::vector<const Number*>&) {
      if (call.inputs[0].dtype == DType::boolean)
        refuse(row.name, call, "not defined for bool; cast it first");
    };
  if (row.add_forms) row.add_forms(op);
  set_unary_gradient(op);
}

const OpTable<UnaryRow> kUnaryTable = {
    "elementwise",
    [](const UnaryRow&) -> std::vector<Param> { return {params::tensor("x")}; },
    infer_unary,
    prepare_unary,
    [](const UnaryRow& row, const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return elementwise_strategies(call, outputs, unary_passes(row, call));
    },
    unary_samples,
    complete_unary};

// The rows of gelu(x, approximate='none'|'tanh').
const UnaryRow kGelu{"gelu", "x * Phi(x)", unary<functor::Gelu>, UnaryResult::floating,
                     kNone,  "",           kFloatsOnly};
const UnaryRow kGeluTanh{
    "gelu", "x * Phi(x)", unary<functor::GeluTanh>, UnaryResult::floating, kNone, "", kFloatsOnly};

const UnaryRow& gelu_row(const OpCall& call) {
  const std::string kind =
      call.attrs && call.attrs->has("approximate") ? call.attrs->text("approximate") : "none";
  if (kind != "none" && kind != "tanh")
    refuse("gelu", call, "approximate must be 'none' or 'tanh', found '{}'", kind);
  return kind == "tanh" ? kGeluTanh : kGelu;
}

OpRecord gelu_record() {
  OpRecord op = record_of_row(kUnaryTable, kGelu);
  op.params.push_back({"approximate", ParamKind::text, false, std::string("none")});
  op.infer = [](const OpCall& call) { return infer_unary(gelu_row(call), call); };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_unary(gelu_row(call), call, outputs);
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

}  // namespace

void add_unary_ops(OpRegistry& ops) {
  add_rows(ops, kUnaryTable, kUnaryRows);
  ops.add(gelu_record());
}

}  // namespace shardproof
