// Registers gelu_grad(dy, x) and silu_grad(dy, x): dy times the derivative of the activation at x.
#include <cmath>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/activation_functors.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

TypedLoop slope_loop(const std::string& op, const OpCall& call) {
  const DType compute = compute_dtype(float_result_dtype(call));
  if (op == "silu_grad") return loop_for<Binary, functor::SiluGrad>(compute);
  const std::string kind =
      call.attrs->has("approximate") ? call.attrs->text("approximate") : "none";
  if (kind == "tanh") return loop_for<Binary, functor::GeluTanhGrad>(compute);
  if (kind != "none") refuse(op, call, "approximate must be 'none' or 'tanh', found '{}'", kind);
  return loop_for<Binary, functor::GeluGrad>(compute);
}

// s (1 - s) (2 + x (1 - 2 s)) with s = sigmoid(x).
F silu_curvature(Gradient& g) {
  const F s = g.op("sigmoid", {g[1]});
  return s * (1 - s) * (g[1] * (1 - s * 2) + 2);
}

// (2 - x^2) times the density of the normal distribution.
F gelu_curvature(Gradient& g) {
  const F square = g.op("square", {g[1]});
  return (2 - square) * g.op("exp", {square * -0.5}) * (1 / std::sqrt(2 * M_PI));
}

// With t = tanh(u(x)): (1 - t^2) (u' + x (u'' / 2 - t u'^2)).
F gelu_tanh_curvature(Gradient& g) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  const F x = g[1], square = g.op("square", {x});
  const F t = g.op("tanh", {x * (square * cubic + 1) * scale});
  const F slope = (square * (3 * cubic) + 1) * scale, bend = x * (3 * cubic * scale);
  return (1 - g.op("square", {t})) * (slope + x * (bend - t * g.op("square", {slope})));
}

OpRecord slope_record(const char* name, const char* summary, F (*curvature)(Gradient&)) {
  OpRecord op;
  op.name = name;
  op.family = "elementwise";
  op.summary = summary;
  op.params = {params::tensor("dy"), params::tensor("x")};
  op.infer = [op_name = op.name](const OpCall& call) -> std::vector<TensorMeta> {
    if (!slope_loop(op_name, call).run)
      refuse(op_name, call, "not defined for {}", shardproof::name(float_result_dtype(call)));
    return {{float_result_dtype(call), broadcast_shape_of(op_name, call)}};
  };
  op.prepare = [op_name = op.name](const OpCall& call, const std::vector<TensorMeta>&) {
    const TypedLoop loop = slope_loop(op_name, call);
    return elementwise_kernel({loop.run, loop.type, {loop.input, loop.input}, {loop.output}});
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs,
                                  joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {0}));
  };
  op.gradient = gradients({[name](Gradient& g) {
                             return g.op(name, {g.dy(), g[1]}, *g.call.attrs);
                           },
                           [curvature](Gradient& g) { return g.dy() * (g[0] * curvature(g)); }});
  const std::vector<std::string> fills = {"uniform(-1, 1)", "uniform(-3, 3)"};
  op.samples = [fills] {
    return std::vector<Sample>{sample_of({{{5, 3}, {5, 3}}, DType::f32, fills}),
                               sample_of({{{7}, {7}}, DType::bf16, fills}),
                               sample_of({{{2, 1, 4}, {2, 1, 4}}, DType::f64, fills})};
  };
  require_float_input(op);
  return op;
}

}  // namespace

void add_activation_gradients(OpRegistry& ops) {
  ops.add(slope_record("silu_grad", "dy times the derivative of silu at x", silu_curvature));
  OpRecord gelu =
      slope_record("gelu_grad", "dy times the derivative of gelu at x", [](Gradient& g) {
        const bool tanh = g.call.attrs->text("approximate") == "tanh";
        return tanh ? gelu_tanh_curvature(g) : gelu_curvature(g);
      });
  gelu.params.push_back(params::text("approximate", "none"));
  gelu.samples = [plain = gelu.samples] {
    std::vector<Sample> samples = plain();
    samples.push_back(samples.front());
    samples.back().attrs.set("approximate", std::string("tanh"));
    return samples;
  };
  ops.add(std::move(gelu));
}

}  // namespace shardproof
