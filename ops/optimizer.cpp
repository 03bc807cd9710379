// Optimizer steps as pure ops: new parameter and state from old ones and the gradient, as
// torch.optim computes them. Elementwise, so that parameters, gradients and state may be cut alike
// in any way.
#include <algorithm>
#include <cmath>

#include "shardproof/ops/call_text.h"
#include "shardproof/ops/elementwise_bound.h"
#include "shardproof/ops/elementwise_rule.h"
#include "shardproof/ops/families.h"
#include "shardproof/ops/step_loops.h"

namespace shardproof {
namespace {

enum class Kind { sgd, momentum, adam, adamw };
struct Row {
  const char* name;
  const char* summary;
  Kind kind;
  int inputs, outputs;
  TileLoop narrow, wide;
  const std::type_info& type;
};
const Row kRows[] = {
    {"sgd", "w - lr * (g + weight_decay * w)", Kind::sgd, 2, 1, SgdLoop::run<float>,
     SgdLoop::run<double>, typeid(SgdLoop)},
    {"sgd_momentum", "w, buffer after a step of SGD with momentum", Kind::momentum, 3, 2,
     MomentumLoop::run<float>, MomentumLoop::run<double>, typeid(MomentumLoop)},
    {"adam", "w, m, v after a step of Adam", Kind::adam, 4, 3, AdamLoop<false>::run<float>,
     AdamLoop<false>::run<double>, typeid(AdamLoop<false>)},
    {"adamw", "w, m, v after a step of AdamW", Kind::adamw, 4, 3, AdamLoop<true>::run<float>,
     AdamLoop<true>::run<double>, typeid(AdamLoop<true>)},
};

bool is_adam(Kind kind) { return kind == Kind::adam || kind == Kind::adamw; }

double number_or(const OpCall& call, const char* name, double fallback) {
  return call.attrs && call.attrs->has(name) ? call.attrs->number(name) : fallback;
}

double default_decay(Kind kind) { return kind == Kind::adamw ? 0.01 : 0; }

TileNumbers numbers_of(const Row& row, const OpCall& call) {
  TileNumbers numbers;
  auto& n = numbers.real;
  if (is_adam(row.kind)) {
    const double step = number_or(call, "step", 1);
    n[kAdamLr] = number_or(call, "lr", 1e-3);
    n[kBeta1] = number_or(call, "beta1", 0.9);
    n[kBeta2] = number_or(call, "beta2", 0.999);
    n[kEps] = number_or(call, "eps", 1e-8);
    n[kDecay] = number_or(call, "weight_decay", default_decay(row.kind));
    n[kCorrection1] = 1 - std::pow(n[kBeta1], step);
    n[kRootCorrection2] = std::sqrt(1 - std::pow(n[kBeta2], step));
    return numbers;
  }
  n[kLr] = number_or(call, "lr", 1e-3);
  n[kMomentum] = number_or(call, "momentum", 0.9);
  n[kDampening] = number_or(call, "dampening", 0);
  n[kSgdDecay] = number_or(call, "weight_decay", 0);
  n[kNesterov] = call.attrs && call.attrs->has("nesterov") && call.attrs->flag("nesterov") ? 1 : 0;
  return numbers;
}

std::vector<TensorMeta> infer_step(const Row& row, const OpCall& call) {
  const Dims& shape = call.inputs[0].shape;
  if (is_adam(row.kind) && number_or(call, "step", 1) < 1)
    refuse(row.name, call, "step must be at least 1, found {}", call.attrs->integer("step"));
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    require_floating(row.name, call, static_cast<int>(i));
    if (call.inputs[i].shape != shape)
      refuse(row.name, call, "all tensors have the shape of w, {}", to_string(shape));
  }
  std::vector<TensorMeta> outputs = {{call.inputs[0].dtype, shape}};
  for (int i = 2; i < row.inputs; ++i)
    outputs.push_back({call.inputs[static_cast<size_t>(i)].dtype, shape});
  return outputs;
}

DType step_compute(const OpCall& call) {
  for (const TensorMeta& meta : call.inputs)
    if (meta.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

Kernel prepare_step(const Row& row, const OpCall& call) {
  const DType compute = step_compute(call);
  ElementwisePlan plan;
  plan.loop = compute == DType::f64 ? row.wide : row.narrow;
  plan.type = &row.type;
  plan.inputs.assign(static_cast<size_t>(row.inputs), compute);
  plan.outputs.assign(static_cast<size_t>(row.outputs), compute);
  plan.numbers = numbers_of(row, call);
  return elementwise_kernel(plan);
}

// ---- bounds: the formulas again on intervals, with room for their roundings ----

struct Estimate {
  double size = 0,
         error = 0;  // largest |value|, and how far two computations differ from the real one
};

Estimate of(const Interval& x) { return {x.size(), x.error}; }

class StepBound {
 public:
  StepBound(const Row& row, const TileNumbers& numbers, double u)
      : row_(row), n_(numbers.real), u_(u) {}

  Estimate output(const Interval* x, int index) const {
    return is_adam(row_.kind) ? adam(x, index) : sgd(x, index);
  }

 private:
  // a * p + b * q with room for four roundings.
  Estimate mix(double a, Estimate p, double b, Estimate q) const {
    const double size = std::fabs(a) * p.size + std::fabs(b) * q.size;
    return {size, std::fabs(a) * p.error + std::fabs(b) * q.error + 4 * u_ * size};
  }
  Estimate sgd(const Interval* x, int index) const {
    const Estimate w = of(x[0]), gradient = mix(1, of(x[1]), n_[kSgdDecay], w);
    if (row_.kind == Kind::sgd) return mix(1, w, n_[kLr], gradient);
    const Estimate speed = mix(n_[kMomentum], of(x[2]), 1 - n_[kDampening], gradient);
    if (index == 1) return speed;
    const Estimate step = n_[kNesterov] != 0 ? mix(1, gradient, n_[kMomentum], speed) : speed;
    return mix(1, w, n_[kLr], step);
  }
  Estimate adam(const Interval* x, int index) const {
    const Estimate w = of(x[0]);
    const Estimate gradient = row_.kind == Kind::adam ? mix(1, of(x[1]), n_[kDecay], w) : of(x[1]);
    const Estimate first = mix(n_[kBeta1], of(x[2]), 1 - n_[kBeta1], gradient);
    const Estimate square{gradient.size * gradient.size, 2 * gradient.size * gradient.error};
    const Estimate second = mix(n_[kBeta2], of(x[3]), 1 - n_[kBeta2], square);
    if (index == 1) return first;
    if (index == 2) return second;
    const double decay = row_.kind == Kind::adam ? 0 : n_[kAdamLr] * n_[kDecay];
    const Estimate kept = mix(1, w, decay, w);
    return mix(1, kept, n_[kAdamLr] / n_[kCorrection1], quotient(x, first, second));
  }
  // first / (sqrt(second) / root + eps), around the real second moment.
  Estimate quotient(const Interval* x, Estimate first, Estimate second) const {
    const double g = x[1].value + (row_.kind == Kind::adam ? n_[kDecay] * x[0].value : 0);
    const double v = n_[kBeta2] * x[3].value + (1 - n_[kBeta2]) * g * g;
    const double least = std::max(0.0, v - 2 * second.error);
    double root_error = std::sqrt(3 * second.error);
    if (least > 0) root_error = std::min(root_error, second.error / (2 * std::sqrt(least)));
    const double scale = std::sqrt(least) / n_[kRootCorrection2] + n_[kEps];
    const double scale_error = root_error / n_[kRootCorrection2] + 4 * u_ * scale;
    const double size = first.size / scale;
    return {size, first.error / scale + size * scale_error / scale + 4 * u_ * size};
  }

  const Row& row_;
  const std::array<double, 8>& n_;
  double u_;
};

std::vector<Bound> bound_step(const Row& row, const BoundCall& call) {
  const DType compute = step_compute(*call.call);
  const TileNumbers numbers = numbers_of(row, *call.call);
  const StepBound step(row, numbers, unit_roundoff(compute));
  std::vector<Bound> bounds;
  for (int i = 0; i < row.outputs; ++i) {
    const DType dtype = call.outputs[static_cast<size_t>(i)]->dtype;
    bounds.push_back(elementwise_bound(call, compute, i, [&](const Interval* x, double) {
      const Estimate out = step.output(x, i);
      return out.error + (out.size == 0 ? 0 : rounding_error(out.size + out.error, dtype, 1));
    }));
  }
  return bounds;
}

// ---- the record ----

std::vector<Param> step_params(const Row& row) {
  std::vector<Param> params = {{"w", ParamKind::tensor, true, {}},
                               {"g", ParamKind::tensor, true, {}}};
  auto number = [&](const char* name, double fallback) {
    params.push_back({name, ParamKind::number, false, fallback});
  };
  if (is_adam(row.kind)) {
    params.push_back({"m", ParamKind::tensor, true, {}});
    params.push_back({"v", ParamKind::tensor, true, {}});
    params.push_back({"step", ParamKind::integer, false, int64_t{1}});
    number("lr", 1e-3);
    number("beta1", 0.9);
    number("beta2", 0.999);
    number("eps", 1e-8);
    number("weight_decay", default_decay(row.kind));
    return params;
  }
  if (row.kind == Kind::momentum) params.push_back({"buffer", ParamKind::tensor, true, {}});
  number("lr", 1e-3);
  number("weight_decay", 0);
  if (row.kind == Kind::sgd) return params;
  number("momentum", 0.9);
  number("dampening", 0);
  params.push_back({"nesterov", ParamKind::boolean, false, false});
  return params;
}

std::vector<Sample> step_samples(const Row& row) {
  std::vector<Sample> samples;
  const std::vector<std::string> fills = {"uniform(-1, 1)", "uniform(-1, 1)", "uniform(-1, 1)",
                                          "uniform(0.01, 1)"};
  auto add = [&](DType w, DType state, const Dims& shape, Attrs attrs) {
    Sample sample{std::move(attrs), {}, {}};
    for (size_t i = 0; i < static_cast<size_t>(row.inputs); ++i) {
      sample.inputs.push_back({i < 2 ? w : state, shape});
      sample.fills.push_back(row.kind == Kind::momentum && i == 2 ? "ints" : fills[i]);
    }
    samples.push_back(std::move(sample));
  };
  add(DType::f32, DType::f32, {4, 6}, {});
  add(DType::bf16, DType::f32, {5, 3}, {{"lr", 0.1}, {"weight_decay", 0.1}});
  add(DType::f64, DType::f64, {7}, {{"lr", 0.25}});
  if (row.kind == Kind::momentum)
    add(DType::f32, DType::f32, {3, 2}, {{"nesterov", true}, {"dampening", 0.5}});
  if (is_adam(row.kind)) add(DType::f32, DType::f32, {3, 2}, {{"step", int64_t{5}}});
  return samples;
}

OpRecord step_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "optimizer";
  op.summary = row.summary;
  op.params = step_params(row);
  op.infer = [&row](const OpCall& call) { return infer_step(row, call); };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>&) {
    return prepare_step(row, call);
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs, {});
  };
  op.bound = [&row](const BoundCall& call) { return bound_step(row, call); };
  op.samples = [&row] { return step_samples(row); };
  return op;
}

}  // namespace

void add_optimizer_ops(OpRegistry& ops) {
  for (const Row& row : kRows) ops.add(step_record(row));
}

}  // namespace shardproof
