// Implements elementwise_gradients.h for ops that have a kernel. At a kink the value is torch's:
// relu and abs have 0 at 0, maximum and minimum of equal operands give half to each.
#include "shardproof/ops/elementwise/elementwise_gradients.h"

#include <cmath>

#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

// Returns dy times the derivative, which is conjugated if it is complex.
F times(Gradient& g, const F& derivative) { return g.dy() * g.conj(derivative); }
F over(Gradient& g, const F& divisor) { return g.dy() / g.conj(divisor); }
F squared(Gradient& g, const F& x) { return g.op("square", {x}); }

// abs: the sign; of a complex number x / |x|, and 0 at 0.
F abs_gradient(Gradient& g) {
  if (!is_complex(g[0].dtype())) return g.dy() * g.op("sign", {g[0]});
  return g.where(g.op("eq", {g.y(), 0}), 0.0, g.dy() * (g[0] / g.y()));
}

F gaussian(Gradient& g) { return g.op("exp", {-squared(g, g[0])}) * (2 / std::sqrt(M_PI)); }

F gelu_gradient(Gradient& g) { return g.op("gelu_grad", {g.dy(), g[0]}, *g.call.attrs); }
F silu_gradient(Gradient& g) {
  if (!is_complex(g[0].dtype())) return g.op("silu_grad", {g.dy(), g[0]});
  const F s = g.op("sigmoid", {g[0]});
  return times(g, s * (g[0] * (1 - s) + 1));
}
// The root of x^2 - 1 is that of (x - 1)(x + 1): its sign is that of the product of both roots.
F acosh_gradient(Gradient& g) {
  if (!is_complex(g[0].dtype())) return g.dy() * g.op("rsqrt", {squared(g, g[0]) - 1});
  return times(g, g.op("rsqrt", {g[0] - 1}) * g.op("rsqrt", {g[0] + 1}));
}

constexpr auto kYes = Differentiable::yes;
constexpr auto kZero = Differentiable::zero;
constexpr auto kNo = Differentiable::no;

const std::vector<GradientRow>& unary_gradients() {
  static const std::vector<GradientRow> rows = {
      {"neg", [](Gradient& g) { return -g.dy(); }},
      {"stop", nullptr, nullptr, kNo},
      {"conj", [](Gradient& g) { return g.conj(g.dy()); }},
      {"abs", abs_gradient, nullptr, kYes, nullptr, "x == 0"},
      {"exp", [](Gradient& g) { return times(g, g.y()); }},
      {"log", [](Gradient& g) { return over(g, g[0]); }},
      {"sqrt", [](Gradient& g) { return over(g, g.y() * 2); }, nullptr, kYes, nullptr, "x near 0"},
      {"rsqrt", [](Gradient& g) { return times(g, g.y() * squared(g, g.y())) * -0.5; }},
      {"square", [](Gradient& g) { return times(g, g[0] * 2); }},
      {"reciprocal", [](Gradient& g) { return -times(g, squared(g, g.y())); }},
      {"sin", [](Gradient& g) { return times(g, g.op("cos", {g[0]})); }},
      {"cos", [](Gradient& g) { return -times(g, g.op("sin", {g[0]})); }},
      {"tanh", [](Gradient& g) { return times(g, 1 - squared(g, g.y())); }},
      {"erf", [](Gradient& g) { return g.dy() * gaussian(g); }},
      {"sigmoid", [](Gradient& g) { return times(g, g.y() * (1 - g.y())); }},
      {"relu",
       [](Gradient& g) {
         return g.where(g.op("le", {g.y(), 0}), 0.0, g.dy());
       },
       nullptr, kYes, nullptr, "x == 0"},
      {"silu", silu_gradient},
      {"gelu", gelu_gradient},
      {"softplus", [](Gradient& g) { return g.dy() * g.op("sigmoid", {g[0]}); }},
      {"floor", nullptr, nullptr, kZero, nullptr, "x is whole"},
      {"ceil", nullptr, nullptr, kZero, nullptr, "x is whole"},
      {"round", nullptr, nullptr, kZero, nullptr, "x is whole and a half"},
      {"trunc", nullptr, nullptr, kZero, nullptr, "x is whole"},
      {"sign", nullptr, nullptr, kZero, nullptr, "x == 0"},
      {"frac", [](Gradient& g) { return g.dy(); }, nullptr, kYes, nullptr, "x is whole"},
      {"sinh", [](Gradient& g) { return times(g, g.op("cosh", {g[0]})); }},
      {"cosh", [](Gradient& g) { return times(g, g.op("sinh", {g[0]})); }},
      {"tan", [](Gradient& g) { return times(g, squared(g, g.y()) + 1); }},
      {"asin", [](Gradient& g) { return times(g, g.op("rsqrt", {1 - squared(g, g[0])})); }},
      {"acos", [](Gradient& g) { return -times(g, g.op("rsqrt", {1 - squared(g, g[0])})); }},
      {"atan", [](Gradient& g) { return over(g, squared(g, g[0]) + 1); }},
      {"asinh", [](Gradient& g) { return times(g, g.op("rsqrt", {squared(g, g[0]) + 1})); }},
      {"acosh", acosh_gradient},
      {"atanh", [](Gradient& g) { return over(g, 1 - squared(g, g[0])); }},
      {"expm1", [](Gradient& g) { return times(g, g.y() + 1); }},
      {"exp2", [](Gradient& g) { return times(g, g.y() * std::log(2.0)); }},
      {"log1p", [](Gradient& g) { return over(g, g[0] + 1); }},
      {"log2", [](Gradient& g) { return over(g, g[0] * std::log(2.0)); }},
      {"log10", [](Gradient& g) { return over(g, g[0] * std::log(10.0)); }},
      {"erfc", [](Gradient& g) { return -(g.dy() * gaussian(g)); }},
      {"isnan", nullptr, nullptr, kNo},
      {"isinf", nullptr, nullptr, kNo},
      {"signbit", nullptr, nullptr, kNo},
      {"logical_not", nullptr, nullptr, kNo},
      {"bitwise_not", nullptr, nullptr, kNo},
  };
  return rows;
}

// maximum, minimum: all of dy to the operand that `loses` does not choose, half if both are equal.
F share_of(Gradient& g, const char* loses) {
  const F kept = g.where(g.op(loses, {g[0], g[1]}), 0.0, g.dy());
  return g.where(g.op("eq", {g[0], g[1]}), kept * 0.5, kept);
}

// fmax, fmin: all of dy to the operand that is chosen or whose partner is NaN, half if equal.
F number_share(Gradient& g, int mine, int other, const char* wins) {
  const F alone = g.op("logical_or", {g.op(wins, {g[mine], g[other]}), g.op("isnan", {g[other]})});
  const F all = g.where(alone, g.dy(), 0.0);
  return g.where(g.op("eq", {g[0], g[1]}), g.dy() * 0.5, all);
}

// y x^(y - 1), and 0 for an exponent of 0 whatever x is.
F pow_by_base(Gradient& g) {
  const F slope = g[1] * g.op("pow", {g[0], g[1] - 1});
  return g.where(g.op("eq", {g[1], 0}), 0.0, times(g, slope));
}
// x^y log(x), and 0 for 0^y where y is not negative.
F pow_by_exponent(Gradient& g) {
  const F base = in_result_dtype(g, 0);
  const F exponent = is_complex(g[1].dtype()) ? g.op("real", {g[1]}) : g[1];
  const F flat = g.op("logical_and", {g.op("eq", {base, 0}), g.op("ge", {exponent, 0})});
  return g.where(flat, 0.0, times(g, g.y() * g.op("log", {g.where(flat, 1.0, base)})));
}

// 0 at the origin, as in torch.
F over_square_norm(Gradient& g, const F& x) {
  const F a = g.to_result_dtype(g[0]), b = g.to_result_dtype(g[1]);  // bools have no square
  const F norm = squared(g, a) + squared(g, b), origin = g.op("eq", {norm, 0});
  return g.where(origin, 0.0, g.dy() * (x / g.where(origin, 1.0, norm)));
}

// The share of x: sigmoid(x - y), and one half if both are the same infinity.
F logaddexp_share(Gradient& g, int x, int y, double scale) {
  const F apart = (g[x] - g[y]) * scale;
  const F equal = g.op("isnan", {apart});  // also true for a NaN operand; dy is NaN then
  return g.dy() * g.op("sigmoid", {g.where(equal, 0.0, apart)});
}

const std::vector<GradientRow>& binary_gradients() {
  static const std::vector<GradientRow> rows = {
      {"add", [](Gradient& g) { return g.dy(); }, [](Gradient& g) { return g.dy(); }},
      {"sub", [](Gradient& g) { return g.dy(); }, [](Gradient& g) { return -g.dy(); }},
      {"mul", [](Gradient& g) { return times(g, g[1]); },
       [](Gradient& g) { return times(g, g[0]); }},
      {"div", [](Gradient& g) { return over(g, g[1]); },
       [](Gradient& g) { return -over(g, g[1]) * g.conj(g.y()); }},
      {"floordiv", nullptr, nullptr, kZero, nullptr, "x is a multiple of y"},
      {"remainder", [](Gradient& g) { return g.dy(); },
       [](Gradient& g) {
         return -(g.dy() * g.op("floordiv", {g[0], g[1]}));
       },
       kYes, nullptr, "x is a multiple of y"},
      {"fmod", [](Gradient& g) { return g.dy(); },
       [](Gradient& g) { return -(g.dy() * g.op("trunc", {g[0] / g[1]})); }, kYes, nullptr,
       "x is a multiple of y"},
      {"pow", pow_by_base, pow_by_exponent, kYes, nullptr, "x == 0"},
      {"maximum", [](Gradient& g) { return share_of(g, "lt"); },
       [](Gradient& g) { return share_of(g, "gt"); }, kYes, nullptr, "x == y"},
      {"minimum", [](Gradient& g) { return share_of(g, "gt"); },
       [](Gradient& g) { return share_of(g, "lt"); }, kYes, nullptr, "x == y"},
      {"fmax", [](Gradient& g) { return number_share(g, 0, 1, "gt"); },
       [](Gradient& g) { return number_share(g, 1, 0, "gt"); }, kYes, nullptr, "x == y"},
      {"fmin", [](Gradient& g) { return number_share(g, 0, 1, "lt"); },
       [](Gradient& g) { return number_share(g, 1, 0, "lt"); }, kYes, nullptr, "x == y"},
      {"copysign",
       [](Gradient& g) {
         return g.where(g.op("eq", {g[0], 0}), 0.0, g.dy() * g.op("sign", {g.y() * g[0]}));
       },
       nullptr, kYes, nullptr, "x == 0 or y == 0"},
      {"atan2", [](Gradient& g) { return over_square_norm(g, g[1]); },
       [](Gradient& g) { return -over_square_norm(g, g[0]); }},
      {"hypot", [](Gradient& g) { return g.dy() * (g[0] / g.y()); },
       [](Gradient& g) { return g.dy() * (g[1] / g.y()); }, kYes, nullptr, "x and y are 0"},
      {"logaddexp", [](Gradient& g) { return logaddexp_share(g, 0, 1, 1); },
       [](Gradient& g) { return logaddexp_share(g, 1, 0, 1); }},
      {"logaddexp2", [](Gradient& g) { return logaddexp_share(g, 0, 1, std::log(2.0)); },
       [](Gradient& g) { return logaddexp_share(g, 1, 0, std::log(2.0)); }},
      {"eq", nullptr, nullptr, kNo},
      {"ne", nullptr, nullptr, kNo},
      {"lt", nullptr, nullptr, kNo},
      {"le", nullptr, nullptr, kNo},
      {"gt", nullptr, nullptr, kNo},
      {"ge", nullptr, nullptr, kNo},
      {"logical_and", nullptr, nullptr, kNo},
      {"logical_or", nullptr, nullptr, kNo},
      {"logical_xor", nullptr, nullptr, kNo},
      {"bitwise_and", nullptr, nullptr, kNo},
      {"bitwise_or", nullptr, nullptr, kNo},
      {"bitwise_xor", nullptr, nullptr, kNo},
      {"gcd", nullptr, nullptr, kNo},
      {"bitwise_left_shift", nullptr, nullptr, kNo},
      {"bitwise_right_shift", nullptr, nullptr, kNo},
  };
  return rows;
}

}  // namespace

FormulaTerm in_result_dtype(Formula& f, int i) {
  const DType result = result_dtype(f.call);
  const bool differs = f[i].dtype() != result || f.call.inputs[static_cast<size_t>(i)].weak;
  return differs && (is_floating(result) || is_complex(result)) ? f.to(result, f[i]) : f[i];
}

void set_unary_gradient(OpRecord& record) { set_gradient(record, unary_gradients()); }
void set_binary_gradient(OpRecord& record) { set_gradient(record, binary_gradients()); }

}  // namespace shardproof
