// Registers special functions (lgamma, erfinv, i0, igamma, zeta, ..), one table row each, and the
// formulas of them (polygamma, mvlgamma, xlog1py). They have no device kernel: they run on the
// host, also in GPU runs.
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_gradients.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/special_functions.h"
#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {
namespace {

// Functors of a function of doubles: f32 is computed in double and rounded once.
template <double (*kFunction)(double)>
struct SpecialOfOne {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static C apply(C x) {
    return static_cast<C>(kFunction(static_cast<double>(x)));
  }
};
template <double (*kFunction)(double, double)>
struct SpecialOfTwo {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static C apply(C x, C y) {
    return static_cast<C>(kFunction(static_cast<double>(x), static_cast<double>(y)));
  }
};
// The next number of the compute type itself.
struct NextAfter {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static C apply(C x, C y) {
    return std::nextafter(x, y);
  }
};

// falls_from_min: NaN below the domain, so that only the minimum passes.
enum class SpecialPasses { none, grows, falls, falls_from_min };

struct SpecialRow {
  const char* name;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  const char* fill;  // sample values inside the domain
  SpecialPasses passes = SpecialPasses::none;
  const char* first = "x";
  const char* second = "";  // "": one operand
  bool wide_only = false;   // no floats narrower than f32
};

template <double (*kFunction)(double)>
TypedLoop of_one(DType compute) {
  return loop_for<Unary, SpecialOfOne<kFunction>>(compute);
}
template <double (*kFunction)(double, double)>
TypedLoop of_two(DType compute) {
  return loop_for<Binary, SpecialOfTwo<kFunction>>(compute);
}

const SpecialRow kSpecialRows[] = {
    {"lgamma", "log |gamma(x)|", of_one<special::log_gamma>, "uniform(0.1, 4)"},
    {"digamma", "derivative of lgamma", of_one<special::digamma>, "uniform(0.1, 4)"},
    {"erfinv", "inverse of erf", of_one<special::erf_inverse>, "uniform(-0.9, 0.9)"},
    {"erfcx", "exp(x^2) * erfc(x)", of_one<special::erfcx>, "uniform(-2, 3)", SpecialPasses::falls},
    {"ndtri", "inverse of the normal distribution", of_one<special::ndtri>, "uniform(0.1, 0.9)"},
    {"log_ndtr", "log of the normal distribution", of_one<special::log_ndtr>, "uniform(-3, 3)",
     SpecialPasses::grows},
    {"i0", "modified Bessel function of order 0", of_one<special::bessel_i0>, "uniform(-3, 3)"},
    {"i0e", "exp(-|x|) * i0(x)", of_one<special::scaled_bessel_i0>, "uniform(0.1, 3)"},
    {"i1", "modified Bessel function of order 1", of_one<special::bessel_i1>, "uniform(-3, 3)",
     SpecialPasses::grows},
    {"i1e", "exp(-|x|) * i1(x)", of_one<special::scaled_bessel_i1>, "uniform(-3, -0.1)"},
    {"bessel_j0", "Bessel function of order 0", of_one<special::bessel_j0>, "uniform(-3, 3)"},
    {"bessel_j1", "Bessel function of order 1", of_one<special::bessel_j1>, "uniform(0.1, 4)"},
    {"bessel_y0", "Bessel function of order 0, second kind", of_one<special::bessel_y0>,
     "uniform(0.5, 4)"},
    {"bessel_y1", "Bessel function of order 1, second kind", of_one<special::bessel_y1>,
     "uniform(0.5, 4)"},
    {"modified_bessel_k0", "modified Bessel function of order 0, second kind",
     of_one<special::bessel_k0>, "uniform(0.5, 4)", SpecialPasses::falls_from_min},
    {"modified_bessel_k1", "modified Bessel function of order 1, second kind",
     of_one<special::bessel_k1>, "uniform(0.5, 4)", SpecialPasses::falls_from_min},
    {"scaled_modified_bessel_k0", "exp(x) * modified_bessel_k0(x)",
     of_one<special::scaled_bessel_k0>, "uniform(0.5, 4)", SpecialPasses::falls_from_min},
    {"scaled_modified_bessel_k1", "exp(x) * modified_bessel_k1(x)",
     of_one<special::scaled_bessel_k1>, "uniform(0.5, 4)", SpecialPasses::falls_from_min},
    {"airy_ai", "Airy function; without a derivative, as in torch", of_one<special::airy_ai>,
     "uniform(-3, 3)"},
    {"igamma", "regularized lower incomplete gamma function", of_two<special::gamma_p>,
     "uniform(0.1, 4)", SpecialPasses::none, "a", "x"},
    {"igammac", "1 - igamma(a, x)", of_two<special::gamma_q>, "uniform(0.1, 4)",
     SpecialPasses::none, "a", "x"},
    {"zeta", "sum of (q + k)^-s over k = 0, 1, .. (Hurwitz)", of_two<special::zeta>,
     "uniform(0.5, 4)", SpecialPasses::none, "s", "q"},
    {"nextafter", "the next number from x towards y", loop_for<Binary, NextAfter>, "uniform(-3, 3)",
     SpecialPasses::none, "x", "y", true},
};

bool has_two(const SpecialRow& row) { return *row.second != 0; }

std::vector<TensorMeta> infer_special(const SpecialRow& row, const OpCall& call) {
  const DType dtype = float_result_dtype(call);
  if (is_complex(dtype)) refuse(row.name, call, "not defined for {}", name(dtype));
  if (row.wide_only && (!is_floating(result_dtype(call)) || size_of(dtype) < 4))
    refuse(row.name, call, "defined for f32 and f64, found {}; cast it first",
           name(result_dtype(call)));
  return {{dtype, broadcast_shape_of(row.name, call)}};
}

Kernel prepare_special(const SpecialRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  const TypedLoop loop = row.loop(compute_dtype(float_result_dtype(call)));
  ElementwisePlan plan{loop.run, nullptr, {loop.input}, {loop.output}};
  if (has_two(row)) plan.inputs.push_back(loop.input);
  plan.by_library = !row.wide_only;
  return elementwise_kernel(plan);
}

std::vector<Strategy> special_strategies(const SpecialRow& row, const OpCall& call,
                                         const std::vector<TensorMeta>& outputs) {
  std::vector<PartialPropagation> passes;
  constexpr ReduceOp kMax = ReduceOp::max, kMin = ReduceOp::min;
  if (row.passes == SpecialPasses::grows) passes = {{{kMax}, kMax}, {{kMin}, kMin}};
  if (row.passes == SpecialPasses::falls_from_min) passes = {{{kMin}, kMax}};
  if (row.passes == SpecialPasses::falls) passes = {{{kMax}, kMin}, {{kMin}, kMax}};
  return elementwise_strategies(call, outputs, passes);
}

std::vector<Sample> special_samples(const SpecialRow& row) {
  std::vector<Sample> samples;
  const bool is_float = row.wide_only;  // both operands are floats
  const auto add = [&](DType dtype, const Dims& shape, const Dims& other) {
    if (row.wide_only && size_of(dtype) < 4) return;
    if (!has_two(row)) {
      samples.push_back({{}, {{dtype, shape}}, {row.fill}});
      return;
    }
    // The first operand has no derivative, in torch either; integers need none.
    samples.push_back({{},
                       {{is_float ? dtype : DType::i64, other}, {dtype, shape}},
                       {is_float ? row.fill : "ints(2, 5)", row.fill}});
  };
  add(DType::f32, {5, 3}, {3});
  add(DType::f32, {4, 6}, {4, 1});
  add(DType::bf16, {7}, {});
  add(DType::f64, {2, 1, 3}, {2, 2, 3});
  // The gamma function of an integer operand overflows f16.
  add(has_two(row) ? DType::f32 : DType::f16, {}, {2});
  if (!has_two(row)) samples.push_back({{}, {{DType::i64, {3, 2}}}, {"ints(1, 5)"}});
  // The gradients of these are limits at 0.
  for (const std::string_view name : {"i0", "i1", "bessel_j0", "bessel_j1"})
    if (row.name == name) samples.push_back({{}, {{DType::f64, {3}}}, {"ints(-1, 1)"}});
  return samples;
}

using F = FormulaTerm;

F no_derivative(Gradient& g) {
  g.refuse("there is no derivative by the first operand, as in torch; stop(x) takes it as given");
}
F at_zero(Gradient& g, double limit, const F& slope) {
  return g.dy() * g.where(g.op("eq", {g[0], 0}), limit, slope);
}
// Returns x, 1 where it is 0, so that a gradient of this one divides by no 0.
F away_from_zero(Gradient& g) { return g.where(g.op("eq", {g[0], 0}), 1.0, g[0]); }
F bessel_pair(Gradient& g, const char* other) { return g.op(other, {g[0]}); }
// x^(a - 1) exp(-x) / gamma(a).
F gamma_density(Gradient& g) {
  const F a = g.to_result_dtype(g[0]);
  const F power = g.op("log", {g[1]}) * (a - 1) - g[1] - g.op("lgamma", {a});
  return g.dy() * g.op("exp", {power});
}

const std::vector<GradientRow>& special_gradients() {
  static const std::vector<GradientRow> rows = {
      {"lgamma", [](Gradient& g) { return g.dy() * g.op("digamma", {g[0]}); }},
      {"digamma",
       [](Gradient& g) {
         return g.dy() * g.op("zeta", {2, g[0]});
       }},
      {"erfinv",
       [](Gradient& g) {
         return g.dy() * g.op("exp", {g.op("square", {g.y()})}) * (std::sqrt(M_PI) / 2);
       }},
      {"erfcx", [](Gradient& g) { return g.dy() * (g[0] * 2 * g.y() - 2 / std::sqrt(M_PI)); }},
      {"ndtri",
       [](Gradient& g) {
         return g.dy() * g.op("exp", {g.op("square", {g.y()}) / 2}) * std::sqrt(2 * M_PI);
       }},
      {"log_ndtr",
       [](Gradient& g) {
         return g.dy() * std::sqrt(2 / M_PI) / g.op("erfcx", {g[0] * -std::sqrt(0.5)});
       }},
      {"i0", [](Gradient& g) { return g.dy() * bessel_pair(g, "i1"); }},
      {"i0e",
       [](Gradient& g) { return g.dy() * (bessel_pair(g, "i1e") - g.op("sign", {g[0]}) * g.y()); },
       nullptr, Differentiable::yes, nullptr, "x == 0"},
      {"i1",
       [](Gradient& g) {
         return at_zero(g, 0.5, bessel_pair(g, "i0") - g.y() / away_from_zero(g));
       }},
      {"i1e",
       [](Gradient& g) {
         const F less = g.y() * (g.op("sign", {g[0]}) + 1 / away_from_zero(g));
         return at_zero(g, 0.5, bessel_pair(g, "i0e") - less);
       }},
      {"bessel_j0", [](Gradient& g) { return -(g.dy() * bessel_pair(g, "bessel_j1")); }},
      {"bessel_j1",
       [](Gradient& g) {
         return at_zero(g, 0.5, bessel_pair(g, "bessel_j0") - g.y() / away_from_zero(g));
       }},
      {"bessel_y0", [](Gradient& g) { return -(g.dy() * bessel_pair(g, "bessel_y1")); }},
      {"bessel_y1",
       [](Gradient& g) { return g.dy() * (bessel_pair(g, "bessel_y0") - g.y() / g[0]); }},
      {"modified_bessel_k0",
       [](Gradient& g) { return -(g.dy() * bessel_pair(g, "modified_bessel_k1")); }},
      {"modified_bessel_k1",
       [](Gradient& g) {
         return -(g.dy() * (bessel_pair(g, "modified_bessel_k0") + g.y() / g[0]));
       }},
      {"scaled_modified_bessel_k0",
       [](Gradient& g) { return g.dy() * (g.y() - bessel_pair(g, "scaled_modified_bessel_k1")); }},
      {"scaled_modified_bessel_k1",
       [](Gradient& g) {
         const F less = bessel_pair(g, "scaled_modified_bessel_k0") + g.y() / g[0];
         return g.dy() * (g.y() - less);
       }},
      {"airy_ai", nullptr, nullptr, Differentiable::no},
      {"igamma", no_derivative, gamma_density},
      {"igammac", no_derivative, [](Gradient& g) { return -gamma_density(g); }},
      {"zeta", no_derivative,
       [](Gradient& g) {
         return -(g.dy() * g[0] * g.op("zeta", {g[0] + 1, g[1]}));
       }},
      {"nextafter", nullptr, nullptr, Differentiable::no},
  };
  return rows;
}

const OpTable<SpecialRow> kSpecialTable = {
    "special",
    [](const SpecialRow& row) {
      std::vector<Param> params = {params::tensor(row.first)};
      if (has_two(row)) params.push_back(params::tensor(row.second));
      return params;
    },
    infer_special,
    prepare_special,
    special_strategies,
    special_samples,
    [](const SpecialRow&, OpRecord& op) { set_gradient(op, special_gradients()); }};

FormulaTerms polygamma(Formula& f) {
  const int64_t n = f.integer("n");
  if (n < 0) f.refuse("n must be at least 0, found {}", n);
  if (n == 0) return {f.op("digamma", {f[0]})};
  const double factorial = std::tgamma(static_cast<double>(n) + 1);
  return {f.op("zeta", {n + 1, f[0]}) * (n % 2 == 0 ? -factorial : factorial)};
}

FormulaTerms mvlgamma(Formula& f) {
  const int64_t p = f.integer("p");
  if (p < 1) f.refuse("p must be at least 1, found {}", p);
  const auto order = static_cast<double>(p);
  F sum = f.op("lgamma", {f[0]});
  for (int64_t j = 1; j < p; ++j) sum = sum + f.op("lgamma", {f[0] - static_cast<double>(j) / 2});
  return {sum + order * (order - 1) / 4 * std::log(M_PI)};
}

FormulaTerms xlog1py(Formula& f) {
  const F y = in_result_dtype(f, 1);
  const F counts = f.op("logical_or", {f.op("ne", {f[0], 0}), f.op("isnan", {f[1]})});
  return {f.where(counts, f[0] * f.op("log1p", {y}), 0.0)};
}
F xlog1py_by_x(Gradient& g) {
  const F nothing = g.op("logical_and", {g.op("eq", {g[0], 0}), g.op("le", {g[1], -1})});
  const F y = in_result_dtype(g, 1);
  return g.where(nothing, 0.0, g.dy() * g.op("log1p", {g.where(nothing, 0.0, y)}));
}
F xlog1py_by_y(Gradient& g) { return g.dy() * (g[0] / (g[1] + 1)); }

void add_special_formulas(OpRegistry& ops) {
  const auto of_order = [](const char* attr, int64_t order, const Dims& shape, const char* fill) {
    return sample_of({{shape}, DType::f32, {fill}}, {{attr, order}});
  };
  ops.add(in_f32(formula(
      {"polygamma", "special", "derivative n of digamma"},
      {params::integer("n"), params::tensor("x")}, polygamma,
      {of_order("n", 0, {5, 3}, "uniform(0.5, 4)"), of_order("n", 1, {7}, "uniform(0.5, 4)"),
       of_order("n", 4, {2, 3}, "uniform(0.5, 4)")})));
  ops.add(in_f32(formula(
      {"mvlgamma", "special", "log of the gamma function of dimension p"},
      {params::tensor("x"), params::integer("p")}, mvlgamma,
      {of_order("p", 1, {5, 3}, "uniform(0.5, 4)"), of_order("p", 3, {7}, "uniform(1.5, 4)")})));
  ops.add(
      with_gradient(formula({"xlog1py", "special", "x * log(1 + y), 0 where x is 0"},
                            {params::tensor("x"), params::tensor("y")}, xlog1py,
                            {sample_of({{{5, 3}, {3}}, DType::f32, {"ints", "uniform(-0.5, 2)"}})}),
                    gradients({xlog1py_by_x, xlog1py_by_y})));
}

}  // namespace

void add_special_ops(OpRegistry& ops) {
  add_rows(ops, kSpecialTable, kSpecialRows);
  add_special_formulas(ops);
}

}  // namespace shardproof
