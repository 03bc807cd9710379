// Elementwise ops of two operands: one row each, with the error a result inherits from its operands
// and the partials that pass. Rows of logical and bitwise ops stand beside the arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/ops/binary_functors.h"
#include "shardproof/ops/binary_passes.h"
#include "shardproof/ops/call_text.h"
#include "shardproof/ops/compare_functors.h"
#include "shardproof/ops/elementwise_bound.h"
#include "shardproof/ops/elementwise_rule.h"
#include "shardproof/ops/families.h"
#include "shardproof/ops/float_pair_functors.h"
#include "shardproof/ops/formula.h"
#include "shardproof/ops/promotion.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Result { same, floating, boolean };
enum class Accepts { all, reals, no_bool, no_bool_reals, integers };

// a, b and the truth result; the error inherited from a and b, without the op's own rounding.
using Inherited = double (*)(const Interval& a, const Interval& b, double result);
// The result is exact: by grids (the operands', over all elements) or element by element.
using Grid = int (*)(int a, int b);
using Check = bool (*)(double a, double b, double result, DType dtype);
using Passes = std::vector<Pass> (*)(const OpCall& call);

struct Row {
  const char* name;
  const char* infix;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  Result result;
  Accepts accepts;
  double ulps;  // 0: never rounds
  Inherited inherited;
  Grid grid;
  Check exact;
  Passes passes;
  const char* second_fill;
};

// ---- how errors are inherited ----

double by_sum(const Interval& a, const Interval& b, double) { return a.error + b.error; }
double by_product(const Interval& a, const Interval& b, double) {
  return a.size() * b.error + b.size() * a.error;
}
double nearest_to_zero(const Interval& x) {
  return std::max(0.0, std::fabs(x.value) - 2 * x.error);
}
double by_quotient(const Interval& a, const Interval& b, double) {
  if (a.error == 0 && b.error == 0) return 0;
  const double least = nearest_to_zero(b);
  if (least == 0) return kInfinity;
  return a.error / least + a.size() * b.error / (least * least);
}
double by_floored_quotient(const Interval& a, const Interval& b, double) {
  if (a.error == 0 && b.error == 0) return 0;
  if (nearest_to_zero(b) == 0) return kInfinity;
  const double corners[] = {a.low() / b.low(), a.low() / b.high(), a.high() / b.low(),
                            a.high() / b.high()};
  const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
  return std::floor(*high) - std::floor(*low);
}
double by_remainder(const Interval& a, const Interval& b, double result) {
  if (a.error == 0 && b.error == 0) return 0;
  if (by_floored_quotient(a, b, result) != 0) return kInfinity;
  return a.error + (std::fabs(a.value / b.value) + 1) * b.error;
}
double by_power(const Interval& a, const Interval& b, double) {
  if (a.error == 0 && b.error == 0) return 0;
  const double size = a.size(), least = nearest_to_zero(a);
  const double exponent = std::max(std::fabs(b.low()), std::fabs(b.high()));
  const bool whole = b.error == 0 && b.value == std::floor(b.value) && b.value >= 1;
  if (!whole && a.low() <= 0) return kInfinity;
  auto power = [&](double e) {
    return whole ? std::pow(size, e) : std::max(std::pow(size, e), std::pow(least, e));
  };
  const double slope = exponent * std::max(power(b.low() - 1), power(b.high() - 1));
  const double logs =
      b.error == 0 ? 0 : std::max(std::fabs(std::log(size)), std::fabs(std::log(least)));
  return slope * a.error + std::max(power(b.low()), power(b.high())) * logs * b.error;
}
double by_larger(const Interval& a, const Interval& b, double) {
  return std::max(a.error, b.error);
}
double by_order(const Interval& a, const Interval& b, double) {
  const double moved = 2 * (a.error + b.error);
  return moved == 0 || std::fabs(a.value - b.value) > moved ? 0 : kInfinity;
}
double by_truth(const Interval& a, const Interval& b, double) {
  auto stable = [](const Interval& x) { return x.error == 0 || nearest_to_zero(x) > 0; };
  return stable(a) && stable(b) ? 0 : kInfinity;
}

bool surely_zero(const Interval& x) { return x.value == 0 && x.error == 0; }
// One that is surely false, or surely true, decides alone.
double by_both(const Interval& a, const Interval& b, double result) {
  return surely_zero(a) || surely_zero(b) ? 0 : by_truth(a, b, result);
}
double by_either(const Interval& a, const Interval& b, double result) {
  return nearest_to_zero(a) > 0 || nearest_to_zero(b) > 0 ? 0 : by_truth(a, b, result);
}

double by_copied_sign(const Interval& a, const Interval& b, double) {
  if (b.error == 0 || nearest_to_zero(b) > 0) return a.error;
  return 2 * a.size();
}
// The angle turns by what the point moves over its distance from the origin.
double by_angle(const Interval& a, const Interval& b, double) {
  if (a.error == 0 && b.error == 0) return 0;
  const double y = nearest_to_zero(a), x = nearest_to_zero(b);
  const double distance = std::hypot(y, x);
  const bool jumps = b.low() <= 0 && a.low() <= 0 && a.high() >= 0;  // from pi to -pi
  return distance > 0 && !jumps ? (a.error + b.error) / distance : kInfinity;
}
double by_truncated_remainder(const Interval& a, const Interval& b, double) {
  if (a.error == 0 && b.error == 0) return 0;
  if (nearest_to_zero(b) == 0) return kInfinity;
  const double corners[] = {a.low() / b.low(), a.low() / b.high(), a.high() / b.low(),
                            a.high() / b.high()};
  const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
  if (std::trunc(*low) != std::trunc(*high)) return kInfinity;
  return a.error + (std::fabs(a.value / b.value) + 1) * b.error;
}

int smaller_grid(int a, int b) { return std::min(a, b); }
int product_grid(int a, int b) { return std::min(a + b, 2000); }
bool product_exact(double a, double b, double y, DType) { return std::fma(a, b, -y) == 0; }
bool quotient_exact(double a, double b, double y, DType) { return std::fma(b, y, -a) == 0; }
bool remainder_exact(double a, double b, double y, DType) { return (a < 0) == (b < 0) || y == 0; }
bool floordiv_exact(double, double, double y, DType dtype) {
  return std::fabs(y) < 0x1p22 && representable(std::fabs(y), 0, dtype);
}
bool power_exact(double a, double b, double y, DType dtype) {
  return b == 1 || b == 0 || (b == 2 && product_exact(a, a, y, dtype));
}

template <typename F>
TypedLoop binary(DType compute) {
  return loop_for<Binary, F>(compute);
}

using functor::Add;

const Row kRows[] = {
    {"add", "+", "x + y", binary<Add>, Result::same, Accepts::all, 1, by_sum, smaller_grid, nullptr,
     add_passes, ""},
    {"sub", "-", "x - y", binary<functor::Sub>, Result::same, Accepts::no_bool, 1, by_sum,
     smaller_grid, nullptr, sub_passes, ""},
    {"mul", "*", "x * y", binary<functor::Mul>, Result::same, Accepts::all, 1, by_product,
     product_grid, product_exact, mul_passes, ""},
    {"div", "/", "x / y; integers give floats", binary<functor::Div>, Result::floating,
     Accepts::all, 1, by_quotient, nullptr, quotient_exact, div_passes, "ints(1, 5)"},
    {"floordiv", "//", "floor(x / y)", binary<functor::FloorDiv>, Result::same,
     Accepts::no_bool_reals, 2, by_floored_quotient, nullptr, floordiv_exact, no_passes,
     "ints(1, 5)"},
    {"remainder", "%", "x - y * floor(x / y)", binary<functor::Remainder>, Result::same,
     Accepts::no_bool_reals, 1, by_remainder, smaller_grid, remainder_exact, no_passes,
     "ints(1, 5)"},
    {"pow", "**", "x to the y", binary<functor::Pow>, Result::same, Accepts::no_bool_reals, 8,
     by_power, nullptr, power_exact, no_passes, "ints(0, 4)"},
    {"maximum", "", "the larger, NaN if either is", binary<functor::Maximum>, Result::same,
     Accepts::reals, 0, by_larger, nullptr, nullptr, maximum_passes, ""},
    {"minimum", "", "the smaller, NaN if either is", binary<functor::Minimum>, Result::same,
     Accepts::reals, 0, by_larger, nullptr, nullptr, minimum_passes, ""},
    {"fmax", "", "the larger, NaN only if both are", binary<functor::Fmax>, Result::same,
     Accepts::reals, 0, by_larger, nullptr, nullptr, no_passes, ""},
    {"fmin", "", "the smaller, NaN only if both are", binary<functor::Fmin>, Result::same,
     Accepts::reals, 0, by_larger, nullptr, nullptr, no_passes, ""},
    {"fmod", "", "x - y * trunc(x / y)", binary<functor::Fmod>, Result::same,
     Accepts::no_bool_reals, 0, by_truncated_remainder, nullptr, nullptr, no_passes, "ints(1, 5)"},
    {"copysign", "", "x with the sign of y", binary<functor::CopySign>, Result::floating,
     Accepts::reals, 0, by_copied_sign, nullptr, nullptr, no_passes, ""},
    {"atan2", "", "angle of the point (y, x)", binary<functor::Atan2>, Result::floating,
     Accepts::reals, 2, by_angle, nullptr, nullptr, no_passes, "ints(1, 5)"},
    {"hypot", "", "sqrt(x^2 + y^2)", binary<functor::Hypot>, Result::floating, Accepts::reals, 2,
     by_sum, nullptr, nullptr, no_passes, ""},
    {"eq", "==", "x == y", binary<functor::Eq>, Result::boolean, Accepts::all, 0, by_order, nullptr,
     nullptr, no_passes, ""},
    {"ne", "!=", "x != y", binary<functor::Ne>, Result::boolean, Accepts::all, 0, by_order, nullptr,
     nullptr, no_passes, ""},
    {"lt", "<", "x < y", binary<functor::Lt>, Result::boolean, Accepts::reals, 0, by_order, nullptr,
     nullptr, no_passes, ""},
    {"le", "<=", "x <= y", binary<functor::Le>, Result::boolean, Accepts::reals, 0, by_order,
     nullptr, nullptr, no_passes, ""},
    {"gt", ">", "x > y", binary<functor::Gt>, Result::boolean, Accepts::reals, 0, by_order, nullptr,
     nullptr, no_passes, ""},
    {"ge", ">=", "x >= y", binary<functor::Ge>, Result::boolean, Accepts::reals, 0, by_order,
     nullptr, nullptr, no_passes, ""},
    {"logical_and", "", "x != 0 and y != 0", binary<functor::LogicalAnd>, Result::boolean,
     Accepts::all, 0, by_both, nullptr, nullptr, and_passes, ""},
    {"logical_or", "", "x != 0 or y != 0", binary<functor::LogicalOr>, Result::boolean,
     Accepts::all, 0, by_either, nullptr, nullptr, or_passes, ""},
    {"logical_xor", "", "one of x, y is not 0", binary<functor::LogicalXor>, Result::boolean,
     Accepts::all, 0, by_truth, nullptr, nullptr, no_passes, ""},
    {"bitwise_and", "", "bits of both", binary<functor::BitAnd>, Result::same, Accepts::integers, 0,
     by_order, nullptr, nullptr, band_passes, ""},
    {"bitwise_or", "", "bits of either", binary<functor::BitOr>, Result::same, Accepts::integers, 0,
     by_order, nullptr, nullptr, bor_passes, ""},
    {"bitwise_xor", "", "bits of one", binary<functor::BitXor>, Result::same, Accepts::integers, 0,
     by_order, nullptr, nullptr, bxor_passes, ""},
};

// ---- the record ----

bool accepted(Accepts accepts, DType dtype) {
  switch (accepts) {
    case Accepts::all: return true;
    case Accepts::reals: return !is_complex(dtype);
    case Accepts::no_bool: return dtype != DType::boolean;
    case Accepts::no_bool_reals: return dtype != DType::boolean && !is_complex(dtype);
    case Accepts::integers: return is_integral(dtype) || dtype == DType::boolean;
  }
  return false;
}

DType common_dtype(const Row& row, const OpCall& call) {
  return row.result == Result::floating ? float_result_dtype(call) : result_dtype(call);
}

std::vector<TensorMeta> infer_binary(const Row& row, const OpCall& call) {
  const DType common = common_dtype(row, call);
  if (!accepted(row.accepts, common)) refuse(row.name, call, "not defined for {}", name(common));
  const DType result = row.result == Result::boolean ? DType::boolean : common;
  return {{result, broadcast_result(row.name, call)}};
}

Kernel prepare_binary(const Row& row, const OpCall& call) {
  const TypedLoop loop = row.loop(compute_dtype(common_dtype(row, call)));
  return elementwise_kernel({loop.run, loop.type, {loop.input, loop.input}, {loop.output}});
}

// A result that is not finite, whatever the other operand is within its error: an infinity plus or
// times something finite, or the larger of the two.
bool decides_alone(const Row& row, const Interval& a, const Interval& b, double result) {
  if (!a.is_known() || std::isfinite(a.value) || !b.is_finite()) return false;
  if (std::isnan(a.value)) return std::isnan(result) && row.inherited != by_power;
  if (row.inherited == by_sum) return true;
  if (row.inherited == by_product) return nearest_to_zero(b) > 0;
  return row.inherited == by_larger && result == a.value;
}

std::vector<Bound> bound_binary(const Row& row, const BoundCall& call) {
  const DType dtype = call.outputs.front()->dtype;
  const DType compute = compute_dtype(common_dtype(row, *call.call));
  const bool complex = is_complex(compute);
  if (row.grid && exact_on_grid(call, row.grid(converted_grid(call, 0, compute),
                                               converted_grid(call, 1, compute))))
    return {Bound::exact_of(*call.outputs.front())};
  const auto error = [&](const Interval* x, double result) {
    const double moved = row.inherited(x[0], x[1], result);
    const bool certain = x[0].error == 0 && x[1].error == 0;
    if (row.ulps == 0) return certain ? 0 : moved;
    if (certain && row.exact && !complex && row.exact(x[0].value, x[1].value, result, dtype))
      return 0.0;
    // 0 times anything is 0, and no rounding of it.
    if (result == 0 && moved == 0 && (surely_zero(x[0]) || surely_zero(x[1]))) return 0.0;
    // Complex products take four real ones.
    const double ulps = complex ? 4 * row.ulps : row.ulps;
    return moved + rounding_error(std::fabs(result) + 2 * moved, dtype, ulps);
  };
  const auto decides = [&](const Interval* x, double result) {
    if (complex) return false;
    const bool quotient = row.inherited == by_quotient && nearest_to_zero(x[1]) > 0;
    if (quotient && x[1].is_finite() && x[0].is_known() && std::isinf(x[0].value)) return true;
    return decides_alone(row, x[0], x[1], result) || decides_alone(row, x[1], x[0], result);
  };
  return {elementwise_bound(call, compute, 0, error, decides)};
}

using Shapes = std::pair<Dims, Dims>;

std::vector<Sample> binary_samples(const Row& row) {
  std::vector<Sample> samples;
  const std::string second = *row.second_fill ? row.second_fill : "ints";
  auto add = [&](DType a, DType b, const Shapes& shapes, const std::string& fa,
                 const std::string& fb) {
    samples.push_back({{}, {{a, shapes.first}, {b, shapes.second}}, {fa, fb}});
  };
  if (row.accepts == Accepts::integers) {
    add(DType::i32, DType::i32, {{5, 4}, {5, 4}}, "ints", "ints");
    add(DType::u8, DType::i16, {{3, 4}, {4}}, "ints", "ints");
    add(DType::boolean, DType::boolean, {{7}, {7}}, "bools", "bools");
    return samples;
  }
  add(DType::f32, DType::f32, {{4, 6}, {4, 6}}, "ints", second);
  add(DType::f32, DType::f32, {{5, 1}, {1, 3}}, "uniform(0.5, 2)", "uniform(0.5, 2)");
  add(DType::bf16, DType::bf16, {{2, 3, 4}, {4}}, "uniform(0.5, 2)", second);
  add(DType::f64, DType::f64, {{7}, {}}, "uniform(0.5, 2)", "uniform(0.5, 2)");
  add(DType::i32, DType::i32, {{5, 2}, {2}}, "ints", second);
  add(DType::i64, DType::f32, {{3}, {5, 3}}, "ints", second);
  if (row.accepts == Accepts::all || row.accepts == Accepts::reals)
    add(DType::boolean, DType::boolean, {{5}, {5}}, "bools",
        row.result == Result::floating ? "ones" : "bools");
  if (row.accepts == Accepts::all) add(DType::c64, DType::c64, {{3, 4}, {3, 4}}, "ints", second);
  return samples;
}

bool divides(const Row& row) {
  const std::string_view name = row.name;
  return name == "floordiv" || name == "remainder" || name == "fmod";
}

// Of integers: what torch raises an error for, where it is plain from the text.
void check_numbers(const Row& row, const OpCall& call, const std::vector<const Number*>& numbers) {
  const bool bools =
      call.inputs[0].dtype == DType::boolean || call.inputs[1].dtype == DType::boolean;
  if (std::string_view(row.name) == "sub" && bools)
    refuse(row.name, call, "not defined for bool; use logical_xor, or cast it first");
  const Number* second = numbers.at(1);
  if (!second || !second->is_integer() || is_floating(result_dtype(call))) return;
  if (divides(row) && second->integer() == 0) refuse(row.name, call, "an integer is divided by 0");
  if (std::string_view(row.name) == "pow" && second->integer() < 0)
    refuse(row.name, call, "integers have no negative integer powers; cast the base to a float");
}

bool holds_zero(const LaneView& x, int64_t lane) {
  Dims index = Dims::filled(x.shape.size(), 0);
  for (int64_t i = element_count(x.shape), at = 0; i > 0; --i) {
    if (load_i64(x.at(lane) + at * size_of(x.dtype), x.dtype) == 0) return true;
    for (int d = x.shape.size() - 1; d >= 0; --d) {
      at += x.strides[d];
      if (++index[d] < x.shape[d]) break;
      at -= index[d] * x.strides[d];
      index[d] = 0;
    }
  }
  return false;
}

// An integer over 0 is the user's data at fault: it has no value.
Kernel refusing_zeros(const Row& row, const OpCall& call, Kernel kernel) {
  const bool any = element_count(broadcast_result(row.name, call)) > 0;
  kernel.run = [=, name = std::string(row.name),
                run = std::move(kernel.run)](const KernelCall& call) {
    for (int64_t lane = 0; any && lane < call.lanes; ++lane)
      if (holds_zero((*call.inputs)[1], lane))
        throw_bad_input("{}: an integer is divided by 0", name);
    run(call);
  };
  return kernel;
}

OpRecord binary_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "elementwise";
  op.summary = row.summary;
  op.infix = row.infix;
  op.params = {{"x", ParamKind::tensor, true, {}}, {"y", ParamKind::tensor, true, {}}};
  op.infer = [&row](const OpCall& call) { return infer_binary(row, call); };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>&) {
    Kernel kernel = prepare_binary(row, call);
    const bool whole = is_integral(common_dtype(row, call));
    return whole && divides(row) ? refusing_zeros(row, call, std::move(kernel)) : kernel;
  };
  if (divides(row) || std::string_view(row.name) == "pow" || std::string_view(row.name) == "sub")
    op.check = [&row](const OpCall& call, const std::vector<const Number*>& numbers) {
      check_numbers(row, call, numbers);
    };
  op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs, row.passes(call));
  };
  op.bound = [&row](const BoundCall& call) { return bound_binary(row, call); };
  op.samples = [&row] { return binary_samples(row); };
  return op;
}

// x + alpha * y, x - alpha * y.
void take_alpha(OpRecord& op) {
  op.params.push_back(params::optional("alpha", ParamKind::number));
  write_as_others(
      op, [](const OpCall& call) { return call.attrs->has("alpha"); },
      [name = op.name](Formula& f) {
        const FormulaTerm more = f.in_result_float(f[1]) * f.number("alpha");
        return std::vector<FormulaTerm>{combine(name.c_str(), f[0], more)};
      });
}

void take_rounding_mode(OpRecord& op) {
  op.params.push_back(params::optional("rounding_mode", ParamKind::text));
  write_as_others(
      op, [](const OpCall& call) { return call.attrs->has("rounding_mode"); },
      [](Formula& f) {
        const std::string& mode = f.call.attrs->text("rounding_mode");
        if (mode == "floor") return std::vector<FormulaTerm>{combine("floordiv", f[0], f[1])};
        if (mode != "trunc") f.refuse("rounding_mode is 'floor' or 'trunc', found '{}'", mode);
        if (!is_integral(f[0].dtype()) || !is_integral(f[1].dtype()))
          return std::vector<FormulaTerm>{f.op("trunc", {f[0] / f[1]})};
        // Integers stay integers: without its remainder the division has nothing to round.
        return std::vector<FormulaTerm>{
            combine("floordiv", f[0] - f.op("fmod", {f[0], f[1]}), f[1])};
      });
}

}  // namespace

void add_binary_ops(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord op = binary_record(row);
    const std::string_view name = row.name;
    if (name == "add" || name == "sub") take_alpha(op);
    if (name == "div") take_rounding_mode(op);
    if (name == "hypot") refuse_whole_numbers(op);
    ops.add(std::move(op));
  }
}

}  // namespace shardproof
