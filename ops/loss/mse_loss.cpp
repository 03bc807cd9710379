// Implements add_mse_loss() of ops/loss/loss.h: registers mse_loss, (input - target)^2 with its sum
// or mean.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/loss/loss.h"
#include "shardproof/ops/loss/loss_gradients.h"
#include "shardproof/ops/loss/loss_item.h"

namespace shardproof {
namespace {

std::vector<TensorMeta> infer_mse_loss(const OpCall& call) {
  require_floating("mse_loss", call, 0);
  DType dtype = same_dtype("mse_loss", call, {0, 1});
  if (!(input_shape(call, 0) == input_shape(call, 1)))
    refuse("mse_loss", call, "input and target must have one shape");
  bool none = parse_loss_reduction("mse_loss", call) == LossReduction::none;
  return {{dtype, none ? input_shape(call, 0) : Dims{}}};
}

// Returns the divisor of a mean; for a shard it is the global count.
double divisor(const OpCall& call) {
  if (call.attrs->has("count")) return static_cast<double>(call.attrs->integer("count"));
  return static_cast<double>(element_count(input_shape(call, 0)));
}

Kernel prepare_mse_loss(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  DType compute = compute_dtype(outputs[0].dtype);
  auto reduction = parse_loss_reduction("mse_loss", call);
  int64_t count = element_count(input_shape(call, 0));
  double over = divisor(call);
  LanePlan plan{std::vector<DType>(call.inputs.size(), compute), {compute}, 0, {}};
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    if (reduction != LossReduction::none) plan.scratch_bytes = count * size_of(compute);
    set_items(plan, SquareItem<T>{reduction, count, static_cast<T>(over)}, count);
  });
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> mse_loss_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                          int64_t) {
  std::string names = letters(input_shape(call, 0).size());
  auto reduction = parse_loss_reduction("mse_loss", call);
  FactorOptions options;
  if (reduction == LossReduction::mean) options.form = LocalExecution::local_attrs;
  std::string in = names.empty() ? " " : names;
  const std::string weight = call.inputs.size() > 2 ? "," : "";  // an absent input
  return factor_strategies(
      in + "," + names + weight + "->" + (reduction == LossReduction::none ? names : ""), options);
}

// True if the input or the target is converted to the dtype of the other.
bool has_two_dtypes(const OpCall& call) {
  const TensorMeta &input = call.inputs[0], &target = call.inputs[1];
  return !input.weak && !target.weak && input.dtype != target.dtype &&
         is_floating(result_dtype(call));
}

}  // namespace

void add_mse_loss(OpRegistry& ops) {
  OpRecord mse;
  mse.name = "mse_loss";
  mse.family = "loss";
  mse.summary = "(input - target)^2, its sum or its mean (of `count` elements on a shard)";
  mse.params = {params::tensor("input"), params::tensor("target"),
                params::text("reduction", "mean"), params::optional("count", ParamKind::integer)};
  mse.infer = infer_mse_loss;
  mse.check = [](const OpCall& call, const std::vector<const Number*>&) {
    if (call.attrs->has("count") && call.attrs->integer("count") < 1)
      refuse("mse_loss", call, "count must be at least 1, found {}", call.attrs->integer("count"));
  };
  mse.prepare = prepare_mse_loss;
  const auto by_input = [](Gradient& g) {
    const bool mean = parse_loss_reduction("mse_loss", g.call) == LossReduction::mean;
    // Inside `as` each rank counts the elements of its own shard.
    if (mean && !g.has_known_sizes() && !g.call.attrs->has("count"))
      return mse_gradient(g, 1) /
             g.op("sum", {g.op("ones", {g[0]}, {{"dtype", compute_dtype(g[0].dtype())}})});
    return mse_gradient(g, mean ? divisor(g.call) : 1);
  };
  mse.gradient = gradients({by_input, [by_input](Gradient& g) { return -by_input(g); }});
  mse.rule.strategies = mse_loss_strategies;
  mse.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>& inputs,
                            const std::vector<Spec>&, int64_t) {
    Attrs attrs = *call.attrs;
    if (!attrs.has("count")) attrs.set("count", element_count(inputs[0].shape()));
    return attrs;
  };
  mse.samples = [] {
    auto sample = [](Dims shape, const char* reduction, DType dtype) {
      Sample made = sample_of({{shape, shape}, dtype}, {{"reduction", std::string(reduction)}});
      made.inputs.push_back(absent_input());
      return made;
    };
    return std::vector<Sample>{sample({5, 3}, "mean", DType::f32), sample({4}, "sum", DType::f64),
                               sample({5, 3}, "none", DType::bf16),
                               sample({8, 2}, "mean", DType::bf16)};
  };
  add_loss_weight(mse);
  decompose_when(mse, has_two_dtypes, [](Formula& f) {
    const DType common = result_dtype(f.call);
    return FormulaTerms{
        f.op("mse_loss", {f.to(common, f[0]), f.to(common, f[1]), f[2]}, *f.call.attrs)};
  });
  ops.add(std::move(mse));
}

}  // namespace shardproof
