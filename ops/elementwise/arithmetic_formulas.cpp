// Registers elementwise ops that decompose into arithmetic: clamp, lerp, addcmul, rsub, xlogy,
// logit, isclose, masked_fill and others.
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_gradients.h"

namespace shardproof {
namespace {

using params::tensor;

Param number(const char* name) { return params::optional(name, ParamKind::number); }

Sample filled_sample(const std::vector<Dims>& shapes, Attrs attrs = {},
                     std::vector<std::string> fills = {}) {
  return sample_of({shapes, DType::f32, std::move(fills)}, std::move(attrs));
}

void add_with_gradient(OpRegistry& ops, OpRecord record) {
  set_formula_gradient(record);
  ops.add(std::move(record));
}

// True if the bounds are whole numbers, which a narrow integer may not hold. As in torch they do
// not wrap, so min=-1 changes no u8.
bool may_leave_dtype(const Formula& f) {
  const DType dtype = f[0].dtype();
  if (!is_integral(dtype) || dtype == DType::i64) return false;
  for (int bound : {1, 2})
    if (f.has(bound) && (!input_meta(f.call, bound).weak || !is_integral(f[bound].dtype())))
      return false;
  return true;
}

FormulaTerms clamped(Formula& f, bool has_min, bool has_max, int max_input) {
  const bool widens = may_leave_dtype(f);
  FormulaTerm x = widens ? f.to(DType::i64, f[0]) : f[0];
  if (has_min) x = max_of(x, f[1]);
  if (has_max) x = min_of(x, f[max_input]);
  return {widens ? f.to(f[0].dtype(), x) : x};
}

FormulaTerms clamp(Formula& f) {
  if (!f.has(1) && !f.has(2)) f.refuse("needs min, max or both");
  return clamped(f, f.has(1), f.has(2), 2);
}

void add_clamps(OpRegistry& ops) {
  Sample both = filled_sample({{5, 3}, {}, {3}}, {}, {"ints", "ints(-2, -1)", "ints(0, 3)"});
  both.inputs[1] = {DType::f64, {}, true, false};
  Sample low = filled_sample({{7}, {}}, {}, {"uniform(-3, 3)", "ints(0, 1)"});
  low.inputs[1] = {DType::i64, {}, true, false};
  low.inputs.push_back(absent_input());
  add_with_gradient(
      ops, formula({"clamp", "elementwise", "x, not below min and not above max"},
                   {tensor("x"), params::optional_tensor("min"), params::optional_tensor("max")},
                   clamp, {both, low}));
  add_with_gradient(
      ops, formula({"clamp_min", "elementwise", "x, not below min"}, {tensor("x"), tensor("min")},
                   [](Formula& f) { return clamped(f, true, false, 1); },
                   {filled_sample({{5, 3}, {3}})}));
  add_with_gradient(
      ops, formula({"clamp_max", "elementwise", "x, not above max"}, {tensor("x"), tensor("max")},
                   [](Formula& f) { return clamped(f, false, true, 1); },
                   {filled_sample({{5, 3}, {5, 1}})}));
}

// Starts from the nearer end, so that weight 1 gives `end` exactly.
FormulaTerms lerp(Formula& f) {
  const DType dtype = f[0].dtype();
  if (dtype != f[1].dtype() || !(is_floating(dtype) || is_complex(dtype)))
    f.refuse("x and end must have one float dtype, found {} and {}; cast one", name(dtype),
             name(f[1].dtype()));
  const FormulaTerm weight = dtype == DType::f64 ? f.to(dtype, f[2]) : f[2];
  const FormulaTerm apart = f[1] - f[0];
  const FormulaTerm near = f.op("lt", {f.op("abs", {weight}), 0.5});
  const FormulaTerm found = f.where(near, f[0] + weight * apart, f[1] - apart * (1 - weight));
  return {found.dtype() != dtype && weight.dims() == 0 ? f.to(dtype, found) : found};
}

void add_scaled_products(OpRegistry& ops) {
  const std::vector<Param> three = {tensor("x"), tensor("a"), tensor("b"),
                                    params::number("value", 1.0)};
  const std::vector<Sample> samples = {
      filled_sample({{5, 3}, {5, 3}, {3}}, {{"value", -2.0}}, {"ints", "ints", "ints(1, 5)"})};
  ops.add(in_f32(formula(
      {"addcmul", "elementwise", "x + value * a * b"}, three,
      [](Formula& f) {
        return FormulaTerms{f[0] + f.to_result_dtype(f[1]) * f.number("value") * f[2]};
      },
      samples)));
  ops.add(in_f32(formula(
      {"addcdiv", "elementwise", "x + value * a / b"}, three,
      [](Formula& f) {
        return FormulaTerms{f[0] + f.to_result_dtype(f[1]) * f.number("value") / f[2]};
      },
      samples)));
  ops.add(
      in_f32(formula({"lerp", "elementwise", "x + weight * (end - x)"},
                     {tensor("x"), tensor("end"), tensor("weight")}, lerp,
                     {filled_sample({{5, 3}, {5, 3}, {5, 1}}),
                      filled_sample({{5, 3}, {3}, {}}, {}, {"ints", "ints", "uniform(-1, 2)"})})));
  ops.add(in_f32(formula(
      {"rsub", "elementwise", "y - alpha * x"}, {tensor("x"), tensor("y"), number("alpha")},
      [](Formula& f) {
        return FormulaTerms{f.given("alpha") ? f[1] - f[0] * f.number("alpha") : f[1] - f[0]};
      },
      {filled_sample({{5, 3}, {3}}, {{"alpha", int64_t{2}}})})));
  ops.add(formula({"lcm", "elementwise", "least common multiple"}, {tensor("x"), tensor("y")},
                  [](Formula& f) {
                    const FormulaTerm common = f.op("gcd", {f[0], f[1]});
                    const FormulaTerm whole = max_of(common, 1);  // 0 only if both are 0
                    return FormulaTerms{f.op("abs", {combine("floordiv", f[0], whole) * f[1]})};
                  },
                  {sample_of({{{5, 3}, {3}}, DType::i32})}));
  ops.add(formula({"ldexp", "elementwise", "x * 2^y"}, {tensor("x"), tensor("y")},
                  [](Formula& f) {
                    // Powers by integers have the dtype of a float x.
                    const bool converts = is_floating(f[0].dtype()) && !is_floating(f[1].dtype()) &&
                                          !f.call.inputs[0].weak;
                    const FormulaTerm power = converts ? f.to(f[0].dtype(), f[1]) : f[1];
                    return FormulaTerms{f[0] * f.op("exp2", {power})};
                  },
                  {filled_sample({{5, 3}, {3}}), [] {
                     Sample whole = filled_sample({{5, 3}, {3}}, {}, {"ints", "ints(-3, 3)"});
                     whole.inputs[0].dtype = DType::f16;
                     whole.inputs[1].dtype = DType::i64;
                     return whole;
                   }()}));
}

// Signs and bounds have no meaning for complex numbers.
void refuse_complex(Formula& f) {
  if (is_complex(f[0].dtype())) f.refuse("not defined for {}", name(f[0].dtype()));
}

void add_logarithms(OpRegistry& ops) {
  const std::vector<Param> pair = {tensor("x"), tensor("y")};
  const std::vector<Sample> samples = {
      filled_sample({{5, 3}, {3}}, {}, {"ints", "uniform(0.5, 2)"})};
  add_with_gradient(ops, formula(
                             {"xlogy", "elementwise", "x * log(y), 0 where x is 0"}, pair,
                             [](Formula& f) {
                               const FormulaTerm y = in_result_dtype(f, 1);
                               const FormulaTerm product = f[0] * f.op("log", {y});
                               const FormulaTerm counts = f.op(
                                   "logical_or", {f.op("ne", {f[0], 0}), f.op("isnan", {f[1]})});
                               return FormulaTerms{f.where(counts, product, 0.0)};
                             },
                             samples));
  add_with_gradient(
      ops,
      in_f32(formula({"logit", "elementwise", "log(x / (1 - x)), x kept within eps of 0 and 1"},
                     {tensor("x"), number("eps")},
                     [](Formula& f) {
                       refuse_complex(f);
                       FormulaTerm x = f[0];
                       if (f.given("eps")) {
                         const double eps = f.number("eps").real();
                         x = min_of(max_of(x, eps), 1 - eps);
                       }
                       return FormulaTerms{f.op("log", {x / (1 - x)})};
                     },
                     {filled_sample({{5, 3}}, {{"eps", 0.1}}, {"uniform(0, 1)"})})));
}

void add_tests(OpRegistry& ops) {
  const std::vector<Sample> samples = {filled_sample({{5, 3}})};
  ops.add(formula(
      {"isfinite", "elementwise", "x is neither infinite nor NaN"}, {tensor("x")},
      [](Formula& f) {
        const FormulaTerm odd = f.op("logical_or", {f.op("isnan", {f[0]}), f.op("isinf", {f[0]})});
        return FormulaTerms{f.op("logical_not", {odd})};
      },
      samples));
  ops.add(formula(
      {"isposinf", "elementwise", "x is +infinity"}, {tensor("x")},
      [](Formula& f) {
        refuse_complex(f);
        return FormulaTerms{f.op("eq", {f[0], params::kInfinity})};
      },
      samples));
  ops.add(formula(
      {"isneginf", "elementwise", "x is -infinity"}, {tensor("x")},
      [](Formula& f) {
        refuse_complex(f);
        return FormulaTerms{f.op("eq", {f[0], -params::kInfinity})};
      },
      samples));
  ops.add(with_kinks(
      formula(
          {"sgn", "elementwise", "-1, 0 or 1; x / |x| of a complex number"}, {tensor("x")},
          [](Formula& f) {
            if (!is_complex(f[0].dtype())) return FormulaTerms{f.op("sign", {f[0]})};
            const FormulaTerm size = f.op("abs", {f[0]});
            const FormulaTerm zero = f.op("eq", {size, 0});
            return FormulaTerms{f.where(zero, 0.0, f[0] / f.where(zero, 1.0, size))};
          },
          samples),
      "x == 0"));
  ops.add(with_kinks(formula({"heaviside", "elementwise", "0 below 0, 1 above, y at 0"},
                             {tensor("x"), tensor("y")},
                             [](Formula& f) {
                               if (f[0].dtype() != f[1].dtype() && !f.call.inputs[1].weak)
                                 f.refuse("x and y must have one dtype, found {} and {}; cast one",
                                          name(f[0].dtype()), name(f[1].dtype()));
                               const FormulaTerm above = f.to(f[0].dtype(), f.op("gt", {f[0], 0}));
                               return FormulaTerms{f.where(f.op("eq", {f[0], 0}), f[1], above)};
                             },
                             {filled_sample({{5, 3}, {3}})}),
                     "x == 0"));
  ops.add(formula(
      {"nan_to_num", "elementwise", "x with nan, posinf, neginf in place of these"},
      {tensor("x"), params::number("nan", 0.0), number("posinf"), number("neginf")},
      [](Formula& f) {
        if (!is_floating(f[0].dtype())) return FormulaTerms{f[0]};
        const double most = max_finite(f[0].dtype());
        const double high = f.given("posinf") ? f.number("posinf").real() : most;
        const double low = f.given("neginf") ? f.number("neginf").real() : -most;
        FormulaTerm x = f.where(f.op("isnan", {f[0]}), f.number("nan").real(), f[0]);
        x = f.where(f.op("eq", {f[0], params::kInfinity}), high, x);
        return FormulaTerms{f.where(f.op("eq", {f[0], -params::kInfinity}), low, x)};
      },
      samples));
}

FormulaTerms isclose(Formula& f) {
  const double rtol = f.number("rtol").real(), atol = f.number("atol").real();
  FormulaTerm close = f.op("eq", {f[0], f[1]});  // true for equal infinities too
  if (rtol != 0 || atol != 0) {
    // The distance of whole numbers is computed in floats, where it cannot overflow.
    const DType common = float_result_dtype(f.call);
    const auto in_float = [&](const FormulaTerm& x) {
      return is_floating(x.dtype()) || is_complex(x.dtype()) ? x : f.to(common, x);
    };
    const FormulaTerm x = in_float(f[0]), y = in_float(f[1]);
    const FormulaTerm apart = f.op("abs", {x - y}), allowed = f.op("abs", {y}) * rtol + atol;
    // No finite number is close to an infinity, even if the allowed distance is infinite.
    const FormulaTerm near =
        f.op("logical_and", {f.op("le", {apart, allowed}), f.op("lt", {apart, params::kInfinity})});
    close = f.op("logical_or", {close, near});
  }
  if (!f.flag("equal_nan")) return {close};
  const FormulaTerm none = f.op("logical_and", {f.op("isnan", {f[0]}), f.op("isnan", {f[1]})});
  return {f.op("logical_or", {close, none})};
}

void add_scalings(OpRegistry& ops) {
  const std::vector<Sample> samples = {filled_sample({{5, 3}})};
  add_with_gradient(ops, in_f32(formula(
                             {"sinc", "elementwise", "sin(pi x) / (pi x), 1 at 0"}, {tensor("x")},
                             [](Formula& f) {
                               const FormulaTerm is_0 = f.op("eq", {f[0], 0});
                               const FormulaTerm turned = f.where(is_0, 1.0, f[0] * M_PI);
                               const FormulaTerm wave = f.op("sin", {turned}) / turned;
                               return FormulaTerms{f.where(is_0, 1.0, wave)};
                             },
                             samples)));
  ops.add(formula({"isclose", "elementwise", "|x - y| <= atol + rtol * |y|"},
                  {tensor("x"), tensor("y"), params::number("rtol", 1e-5),
                   params::number("atol", 1e-8), params::boolean("equal_nan", false)},
                  isclose, {filled_sample({{5, 3}, {3}})}));
  ops.add(formula(
      {"deg2rad", "elementwise", "degrees to radians"}, {tensor("x")},
      [](Formula& f) { return FormulaTerms{f[0] * (M_PI / 180)}; }, samples));
  ops.add(formula(
      {"rad2deg", "elementwise", "radians to degrees"}, {tensor("x")},
      [](Formula& f) { return FormulaTerms{f[0] * (180 / M_PI)}; }, samples));
  ops.add(formula({"masked_fill", "elementwise", "value where mask, else x"},
                  {tensor("x"), tensor("mask"), tensor("value")},
                  [](Formula& f) {
                    const FormulaTerm filled = f.where(f[1], f[2], f[0]);
                    return FormulaTerms{
                        filled.dtype() == f[0].dtype() ? filled : f.to(f[0].dtype(), filled)};
                  },
                  {[] {
                    Sample sample = filled_sample({{5, 3}, {3}, {}}, {}, {"ints", "bools", "ints"});
                    sample.inputs[1].dtype = DType::boolean;
                    return sample;
                  }()}));
}

}  // namespace

void add_arithmetic_formulas(OpRegistry& ops) {
  add_clamps(ops);
  add_scaled_products(ops);
  add_logarithms(ops);
  add_tests(ops);
  add_scalings(ops);
}

}  // namespace shardproof
