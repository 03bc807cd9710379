// Registers the optimizer steps sgd, sgd_momentum, adam, adamw as pure ops. They compute the new
// parameter and state from the old ones and the gradient, by the formulas of torch.optim. They are
// elementwise, so parameters, gradients and state may have any placements that are the same for all
// of them.
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/optimizer/optimizer_loops.h"

namespace shardproof {
namespace {

enum class StepKind { sgd, momentum, adam, adamw };
struct StepRow {
  const char* name;
  const char* summary;
  StepKind kind;
  int inputs, outputs;
  TileLoop narrow, wide;
  const std::type_info& type;
};
const StepRow kStepRows[] = {
    {"sgd", "w - lr * (g + weight_decay * w)", StepKind::sgd, 2, 1, SgdLoop::run<float>,
     SgdLoop::run<double>, typeid(SgdLoop)},
    {"sgd_momentum", "w, buffer after a step of SGD with momentum", StepKind::momentum, 3, 2,
     MomentumLoop::run<float>, MomentumLoop::run<double>, typeid(MomentumLoop)},
    {"adam", "w, m, v after a step of Adam", StepKind::adam, 4, 3, AdamLoop<false>::run<float>,
     AdamLoop<false>::run<double>, typeid(AdamLoop<false>)},
    {"adamw", "w, m, v after a step of AdamW", StepKind::adamw, 4, 3, AdamLoop<true>::run<float>,
     AdamLoop<true>::run<double>, typeid(AdamLoop<true>)},
};

bool is_adam(StepKind kind) { return kind == StepKind::adam || kind == StepKind::adamw; }

double default_decay(StepKind kind) { return kind == StepKind::adamw ? 0.01 : 0; }

TileNumbers numbers_of(const StepRow& row, const OpCall& call) {
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
  // In torch the first step has no buffer yet, and steps without momentum never have one. The
  // buffer then becomes the gradient itself.
  const bool begins = number_or(call, "step", 2) == 1 || n[kMomentum] == 0;
  n[kDampening] = begins ? 0 : number_or(call, "dampening", 0);
  n[kSgdDecay] = number_or(call, "weight_decay", 0);
  n[kNesterov] = call.attrs && call.attrs->has("nesterov") && call.attrs->flag("nesterov") ? 1 : 0;
  return numbers;
}

std::vector<TensorMeta> infer_step(const StepRow& row, const OpCall& call) {
  const Dims& shape = call.inputs[0].shape;
  if (number_or(call, "step", 1) < 1)
    refuse(row.name, call, "step must be at least 1, found {}", call.attrs->integer("step"));
  for (size_t i = 0; i < static_cast<size_t>(row.inputs); ++i) {
    require_floating(row.name, call, static_cast<int>(i));
    if (call.inputs[i].shape != shape)
      refuse(row.name, call, "all tensors must have the shape of w, {}", to_string(shape));
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

Kernel prepare_step(const StepRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  const DType compute = step_compute(call);
  ElementwisePlan plan;
  plan.loop = compute == DType::f64 ? row.wide : row.narrow;
  plan.type = &row.type;
  plan.inputs.assign(static_cast<size_t>(row.inputs), compute);
  plan.outputs.assign(static_cast<size_t>(row.outputs), compute);
  plan.numbers = numbers_of(row, call);
  return elementwise_kernel(plan);
}

std::vector<Param> step_params(const StepRow& row) {
  std::vector<Param> params = {{"w", ParamKind::tensor, true, {}},
                               {"g", ParamKind::tensor, true, {}}};
  auto number = [&](const char* name, double fallback) {
    params.push_back({name, ParamKind::number, false, fallback});
  };
  if (is_adam(row.kind)) {
    params.push_back({"m", ParamKind::tensor, true, {}});
    params.push_back({"v", ParamKind::tensor, true, {}});
    params.push_back(params::or_tensor(params::integer("step", 1), "step_count"));
    number("lr", 1e-3);
    number("beta1", 0.9);
    number("beta2", 0.999);
    number("eps", 1e-8);
    number("weight_decay", default_decay(row.kind));
    params.push_back(params::optional_tensor("step_count"));
    return params;
  }
  if (row.kind == StepKind::momentum) params.push_back({"buffer", ParamKind::tensor, true, {}});
  number("lr", 1e-3);
  number("weight_decay", 0);
  if (row.kind == StepKind::sgd) return params;
  number("momentum", 0.9);
  number("dampening", 0);
  params.push_back({"nesterov", ParamKind::boolean, false, false});
  params.push_back(params::optional("step", ParamKind::integer));
  return params;
}

std::vector<Sample> step_samples(const StepRow& row) {
  std::vector<Sample> samples;
  const std::vector<std::string> fills = {"uniform(-1, 1)", "uniform(-1, 1)", "uniform(-1, 1)",
                                          "uniform(0.01, 1)"};
  auto add = [&](DType w, DType state, const Dims& shape, Attrs attrs) {
    Sample sample{std::move(attrs), {}, {}};
    for (size_t i = 0; i < static_cast<size_t>(row.inputs); ++i) {
      sample.inputs.push_back({i < 2 ? w : state, shape});
      sample.fills.push_back(row.kind == StepKind::momentum && i == 2 ? "ints" : fills[i]);
    }
    if (is_adam(row.kind)) sample.inputs.push_back(absent_input());
    samples.push_back(std::move(sample));
  };
  add(DType::f32, DType::f32, {4, 6}, {});
  add(DType::bf16, DType::f32, {5, 3}, {{"lr", 0.1}, {"weight_decay", 0.1}});
  add(DType::f64, DType::f64, {7}, {{"lr", 0.25}});
  if (row.kind == StepKind::momentum)
    for (const int64_t step : {1, 3})
      add(DType::f32, DType::f32, {3, 2}, {{"nesterov", true}, {"dampening", 0.5}, {"step", step}});
  if (is_adam(row.kind)) add(DType::f32, DType::f32, {3, 2}, {{"step", int64_t{5}}});
  return samples;
}

constexpr int kStepCount = 4;

// Decomposes adam and adamw with a tensor of the step: attributes cannot hold one, and a step that
// a program counts is one. All is computed in the compute dtype, as the kernel does.
FormulaTerms step_by_tensor(const StepRow& row, Formula& f) {
  require_integral(row.name, f.call, kStepCount);
  require_dims(row.name, f.call, kStepCount, 0);
  infer_step(row, f.call);
  const DType wide = step_compute(f.call);
  const auto widened = [&](int i) { return f[i].dtype() == wide ? f[i] : f.to(wide, f[i]); };
  const auto number = [&](const char* name) { return f.number(name).real(); };
  const FormulaTerm w = widened(0), m = widened(2), v = widened(3);
  const FormulaTerm step = f.to(DType::f64, f[kStepCount]);
  const auto correction = [&](const char* beta) {
    return 1 -
           f.op("pow",
                {f.op("full", {FormulaTerm{}},
                      {{"shape", IntegerList{}}, {"value", number(beta)}, {"dtype", DType::f64}}),
                 step});
  };
  const double decay = number("weight_decay"), lr = number("lr");
  const bool decoupled = row.kind == StepKind::adamw;
  const FormulaTerm g = decoupled || decay == 0 ? widened(1) : widened(1) + w * decay;
  const FormulaTerm kept = decoupled && decay != 0 ? w - w * (lr * decay) : w;
  const FormulaTerm first = m * number("beta1") + g * (1 - number("beta1"));
  const FormulaTerm second = v * number("beta2") + f.op("square", {g}) * (1 - number("beta2"));
  const FormulaTerm root = f.to(wide, f.op("sqrt", {correction("beta2")}));
  const FormulaTerm size = f.to(wide, lr / correction("beta1"));
  const FormulaTerm scale = f.op("sqrt", {second}) / root + number("eps");
  const auto narrowed = [&](const FormulaTerm& x, int i) {
    return f[i].dtype() == wide ? x : f.to(f[i].dtype(), x);
  };
  return {narrowed(kept - first / scale * size, 0), narrowed(first, 2), narrowed(second, 3)};
}

void complete_step(const StepRow& row, OpRecord& op) {
  op.differentiable = Differentiable::no;
  if (!is_adam(row.kind)) return;
  decompose_when(
      op, [](const OpCall& call) { return present(call, kStepCount); },
      [&row](Formula& f) { return step_by_tensor(row, f); });
}

const OpTable<StepRow> kStepTable = {
    "optimizer",
    step_params,
    infer_step,
    prepare_step,
    [](const StepRow&, const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return elementwise_strategies(call, outputs, {});
    },
    step_samples,
    complete_step};

}  // namespace

void add_optimizer_ops(OpRegistry& ops) { add_rows(ops, kStepTable, kStepRows); }

}  // namespace shardproof
