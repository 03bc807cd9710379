// Registers activations that decompose into arithmetic: relu6, hardtanh, leaky_relu, elu, mish, glu
// and others. Piecewise functions use maximum and minimum instead of where: near a bend both
// branches then agree. If the lower branch is never below x, the function is the maximum of both
// branches. The parts of a P(max) then pass, because each branch grows with x. Their gradients are
// registered for the whole function, so no gradient is split where the branches are equal.
#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/elementwise/elementwise_gradients.h"

namespace shardproof {
namespace {

using params::tensor;

// A smaller slope may be 0 in a narrow dtype, and infinity times 0 is NaN.
constexpr double kLeastSlope = 1e-6;

FormulaTerm exp_minus_one(Formula& f, const Operand& x) { return f.op("expm1", {x}); }
FormulaTerm softplus_of(Formula& f, const Operand& x) { return f.op("softplus", {x}); }
FormulaTerm clamped_term(const FormulaTerm& x, const Operand& low, const Operand& high) {
  return min_of(max_of(x, low), high);
}

std::vector<Sample> samples_with(const Attrs& attrs) {
  return {sample_of({{{5, 3}}, DType::f32, {"uniform(-4, 4)"}}, attrs),
          sample_of({{{4}}, DType::bf16, {"uniform(-4, 4)"}}, attrs)};
}

// Dtypes that a program may give. `.._in_f32`: narrow floats are computed in f32 and rounded once.
enum class Accepts { floats, floats_in_f32, all, all_in_f32 };

void add_activation(OpRegistry& ops, Accepts accepts, const char* name, const char* summary,
                    std::vector<Param> more, std::function<FormulaTerm(Formula&)> body,
                    const std::vector<Sample>& samples = samples_with({})) {
  std::vector<Param> all = {tensor("x")};
  all.insert(all.end(), more.begin(), more.end());
  OpRecord record = formula(
      {name, "activation", summary}, std::move(all),
      [body = std::move(body)](Formula& f) { return FormulaTerms{body(f)}; }, samples);
  if (accepts == Accepts::floats || accepts == Accepts::floats_in_f32) require_float_input(record);
  set_formula_gradient(record);
  if (accepts == Accepts::all_in_f32 || accepts == Accepts::floats_in_f32) compute_in_f32(record);
  ops.add(std::move(record));
}

void add_bends(OpRegistry& ops) {
  add_activation(ops, Accepts::all, "relu6", "x, not below 0 and not above 6", {},
                 [](Formula& f) { return clamped_term(f[0], 0, 6); });
  add_activation(ops, Accepts::all, "hardtanh", "x, not below min_val and not above max_val",
                 {params::number("min_val", -1.0), params::number("max_val", 1.0)}, [](Formula& f) {
                   const FormulaTerm kept =
                       clamped_term(f[0], f.number("min_val"), f.number("max_val"));
                   return kept.dtype() == f[0].dtype() ? kept : f.to(f[0].dtype(), kept);
                 });
  add_activation(ops, Accepts::floats_in_f32, "hardsigmoid", "relu6(x + 3) / 6", {},
                 [](Formula& f) { return clamped_term(f[0] + 3, 0, 6) / 6; });
  add_activation(
      ops, Accepts::floats_in_f32, "hardswish", "x * relu6(x + 3) / 6", {},
      [](Formula& f) { return f[0] * (clamped_term(f[0] + 3, 0, 6) / 6); });  // 6 x could overflow
  add_activation(ops, Accepts::floats, "leaky_relu", "x, below 0 negative_slope * x",
                 {params::number("negative_slope", 0.01)}, [](Formula& f) {
                   const double slope = f.number("negative_slope").real();
                   if (slope >= kLeastSlope && slope <= 1) return max_of(f[0], f[0] * slope);
                   return max_of(f[0], 0) + min_of(f[0], 0) * slope;
                 });
  add_activation(ops, Accepts::floats, "softshrink", "x moved towards 0 by lambd",
                 {params::number("lambd", 0.5)}, [](Formula& f) {
                   const double lambd = f.number("lambd").real();
                   return f[0] - clamped_term(f[0], -lambd, lambd);
                 });
}

void add_exponentials(OpRegistry& ops) {
  add_activation(ops, Accepts::floats_in_f32, "elu", "x, below 0 alpha * (exp(x) - 1)",
                 {params::number("alpha", 1.0)}, [](Formula& f) {
                   const double alpha = f.number("alpha").real();
                   const FormulaTerm below = exp_minus_one(f, min_of(f[0], 0)) * alpha;
                   if (alpha > 0 && alpha <= 1) return max_of(f[0], below);
                   return max_of(f[0], 0) + below;
                 });
  add_activation(ops, Accepts::floats_in_f32, "celu", "x, below 0 alpha * (exp(x / alpha) - 1)",
                 {params::number("alpha", 1.0)}, [](Formula& f) {
                   const double alpha = f.number("alpha").real();
                   const FormulaTerm below = exp_minus_one(f, min_of(f[0], 0) / alpha) * alpha;
                   return alpha > 0 ? max_of(f[0], below) : max_of(f[0], 0) + below;
                 });
  add_activation(ops, Accepts::floats_in_f32, "selu",
                 "elu with the two constants that keep mean and variance", {}, [](Formula& f) {
                   const double alpha = 1.6732632423543772848170429916717,
                                scale = 1.0507009873554804934193349852946;
                   return (max_of(f[0], 0) + exp_minus_one(f, min_of(f[0], 0)) * alpha) * scale;
                 });
  std::vector<Sample> around_zero = samples_with({});
  around_zero.push_back(sample_of({{{3}}, DType::f64, {"ints(-1, 1)"}}));
  add_activation(
      ops, Accepts::floats_in_f32, "logsigmoid", "log(sigmoid(x))", {},
      [](Formula& f) {
        const FormulaTerm below = f.op("exp", {f.op("abs", {f[0]}) * -1});
        return min_of(f[0], 0) - f.op("log1p", {below});
      },
      around_zero);
  add_activation(ops, Accepts::floats_in_f32, "mish", "x * tanh(softplus(x))", {},
                 [](Formula& f) { return f[0] * f.op("tanh", {softplus_of(f, f[0])}); });
  add_activation(ops, Accepts::all, "softsign", "x / (1 + |x|)", {},
                 [](Formula& f) { return f[0] / (f.op("abs", {f[0]}) + 1); });
  add_activation(ops, Accepts::all_in_f32, "tanhshrink", "x - tanh(x)", {},
                 [](Formula& f) { return f[0] - f.op("tanh", {f[0]}); });
}

void add_gates(OpRegistry& ops) {
  ops.add(in_f32(formula(
      {"glu", "activation", "first half of dim times the sigmoid of the second"},
      {tensor("x"), params::integer("dim", -1)},
      [](Formula& f) {
        const int dim = f.dim();
        const int64_t size = f[0].shape()[dim], half = size / 2;
        if (size % 2 != 0)
          f.refuse("dim {} is split in half, so its size must be even, found {}", dim, size);
        const FormulaTerms halves = f.ops(
            "split", {f[0]}, {{"sizes", std::vector<int64_t>{half, half}}, {"dim", int64_t{dim}}});
        return FormulaTerms{halves.at(0) * f.op("sigmoid", {halves.at(1)})};
      },
      {sample_of({{{5, 6}}, DType::f32, {"uniform(-4, 4)"}})})));
  ops.add(with_kinks(
      formula({"prelu", "activation",
               "x, below 0 weight * x; weight has one number, or one per entry of dim 1"},
              {tensor("x"), tensor("weight")},
              [](Formula& f) {
                FormulaTerm weight = f[1];
                if (weight.dims() == 1 && weight.shape()[0] != 1 && f[0].dims() > 1) {
                  std::vector<int64_t> shape(static_cast<size_t>(f[0].dims()), 1);
                  shape[1] = weight.shape()[0];
                  weight = f.op("reshape", {weight}, {{"shape", shape}});
                }
                return FormulaTerms{f.where(f.op("gt", {f[0], 0}), f[0], weight * f[0])};
              },
              {sample_of({{{5, 3, 2}, {3}}, DType::f32, {}})}),
      "x == 0"));
}

}  // namespace

void add_activation_formulas(OpRegistry& ops) {
  add_bends(ops);
  add_exponentials(ops);
  add_gates(ops);
}

}  // namespace shardproof
