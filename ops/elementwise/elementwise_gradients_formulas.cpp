// Implements set_formula_gradient() of elementwise_gradients.h. The decompositions use maximum and
// minimum, which give half to each of two equal operands; torch gives all or nothing at an edge.
#include <cmath>

#include "shardproof/ops/elementwise/elementwise_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

F both(Gradient& g, const F& a, const F& b) { return g.op("logical_and", {a, b}); }
F is(Gradient& g, const char* comparison, const Operand& a, const Operand& b) {
  return g.op(comparison, {a, b});
}
// dy where the condition holds, else 0.
F where_dy(Gradient& g, const F& condition) { return g.where(condition, g.dy(), 0.0); }
F zero_where(Gradient& g, const F& condition) { return g.where(condition, 0.0, g.dy()); }
F inside(Gradient& g, const Operand& low, const Operand& high) {
  return both(g, is(g, "gt", g[0], low), is(g, "lt", g[0], high));
}
double real(Gradient& g, const char* attribute) { return g.number(attribute).real(); }

// A number as an edge passes dy to an x inside it, not to one that equals it. A tensor as an edge
// shares dy with such an x, half each, unless both edges are equal. If the low edge is above the
// high one, the high one gets all of dy.
class ClampGradient {
 public:
  ClampGradient(Gradient& g, int low, int high) : g_(g), low_(low), high_(high) {}

  F by_x() const {
    F x = g_.dy();
    for (const int edge : {low_, high_})
      if (shared(edge)) x = g_.where(ties(edge), x * 0.5, x);
    if (has(low_)) x = within(x, low_, "lt", "gt");
    return has(high_) ? within(x, high_, "gt", "lt") : x;
  }
  F by_low() const {
    const F all = where_dy(g_, is(g_, "lt", g_[0], g_[low_]));
    const F some = g_.where(ties(low_), g_.dy() * 0.5, all);
    return has(high_) ? g_.where(is(g_, "le", g_[low_], g_[high_]), some, 0.0) : some;
  }
  F by_high() const {
    const F all = where_dy(g_, is(g_, "gt", g_[0], g_[high_]));
    const F some = g_.where(ties(high_), g_.dy() * 0.5, all);
    return has(low_) ? g_.where(is(g_, "lt", g_[high_], g_[low_]), g_.dy(), some) : some;
  }

 private:
  // 0 beyond the edge; of a number also at it.
  F within(const F& x, int edge, const char* beyond, const char* inside) const {
    if (shared(edge)) return g_.where(is(g_, beyond, g_[0], g_[edge]), 0.0, x);
    return g_.where(is(g_, inside, g_[0], g_[edge]), x, 0.0);
  }
  bool has(int edge) const { return edge >= 0 && g_.has(edge); }
  bool shared(int edge) const {
    return has(edge) && !g_.call.inputs[static_cast<size_t>(edge)].weak;
  }
  F ties(int edge) const {
    const F equal = is(g_, "eq", g_[0], g_[edge]);
    if (!has(low_) || !has(high_)) return equal;
    return both(g_, equal, is(g_, "ne", g_[low_], g_[high_]));
  }

  Gradient& g_;
  int low_, high_;
};

F clamp_by_x(Gradient& g) { return ClampGradient(g, 1, 2).by_x(); }
F clamp_by_min(Gradient& g) { return ClampGradient(g, 1, 2).by_low(); }
F clamp_by_max(Gradient& g) { return ClampGradient(g, 1, 2).by_high(); }

F xlogy_by_x(Gradient& g) {
  const F nothing = both(g, is(g, "eq", g[0], 0), is(g, "le", g[1], 0));
  const F y = g.where(nothing, 1.0, in_result_dtype(g, 1));
  return g.where(nothing, 0.0, g.dy() * g.op("log", {y}));
}
// NaN where both are 0, as in torch.
F xlogy_by_y(Gradient& g) { return g.dy() * (g[0] / g[1]); }

F logit_gradient(Gradient& g) {
  const F slope = g.dy() / (g[0] * (1 - g[0]));
  if (!g.given("eps")) return slope;
  const double eps = real(g, "eps");
  const F kept = both(g, is(g, "ge", g[0], eps), is(g, "le", g[0], 1 - eps));
  return g.where(kept, slope, 0.0);
}

F sinc_gradient(Gradient& g) {
  const F zero = is(g, "eq", g[0], 0), x = g.where(zero, 1.0, g[0]), turned = x * M_PI;
  const F slope = (g.op("cos", {turned}) - g.op("sin", {turned}) / turned) / x;
  return g.where(zero, 0.0, g.dy() * g.conj(slope));
}

F hardswish_gradient(Gradient& g) {
  const F middle = g.dy() * (g[0] / 3 + 0.5);
  const F above = g.where(is(g, "ge", g[0], 3), g.dy(), middle);
  return g.where(is(g, "le", g[0], -3), 0.0, above);
}

// alpha exp(x / scale) for x <= 0, else 1; all times `whole`.
F elu_slope(Gradient& g, double alpha, double scale, double whole) {
  const F below = is(g, "le", g[0], 0);
  const F power = g.op("exp", {g.where(below, g[0], 0.0) / scale});
  return g.dy() * whole * g.where(below, power * alpha, 1.0);
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

const std::vector<GradientRow>& formula_gradients() {
  static const std::vector<GradientRow> rows = {
      {"clamp", clamp_by_x, clamp_by_min, Differentiable::yes, clamp_by_max, "x at an edge"},
      {"clamp_min", [](Gradient& g) { return ClampGradient(g, 1, -1).by_x(); },
       [](Gradient& g) { return ClampGradient(g, 1, -1).by_low(); }, Differentiable::yes, nullptr,
       "x at an edge"},
      {"clamp_max", [](Gradient& g) { return ClampGradient(g, -1, 1).by_x(); },
       [](Gradient& g) { return ClampGradient(g, -1, 1).by_high(); }, Differentiable::yes, nullptr,
       "x at an edge"},
      {"xlogy", xlogy_by_x, xlogy_by_y},
      {"logit", logit_gradient},
      {"sinc", sinc_gradient, nullptr, Differentiable::yes, nullptr, "x == 0"},
      {"relu6", [](Gradient& g) { return where_dy(g, inside(g, 0, 6)); }},
      {"hardtanh",
       [](Gradient& g) {
         return where_dy(g, inside(g, g.number("min_val"), g.number("max_val")));
       }},
      {"hardsigmoid", [](Gradient& g) { return where_dy(g, inside(g, -3, 3)) / 6; }},
      {"hardswish", hardswish_gradient},
      {"leaky_relu",
       [](Gradient& g) {
         return g.where(is(g, "gt", g[0], 0), g.dy(), g.dy() * real(g, "negative_slope"));
       }},
      {"softshrink",
       [](Gradient& g) {
         return zero_where(g, is(g, "le", g.op("abs", {g[0]}), g.number("lambd")));
       }},
      {"logsigmoid", [](Gradient& g) { return g.dy() * g.op("sigmoid", {-g[0]}); }},
      {"elu", [](Gradient& g) { return elu_slope(g, real(g, "alpha"), 1, 1); }},
      {"celu", [](Gradient& g) { return elu_slope(g, 1, real(g, "alpha"), 1); }},
      {"selu", [](Gradient& g) { return elu_slope(g, kSeluAlpha, 1, kSeluScale); }},
  };
  return rows;
}

}  // namespace

void set_formula_gradient(OpRecord& record) {
  set_decomposition_gradient(record, formula_gradients());
}

}  // namespace shardproof
