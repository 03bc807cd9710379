// Registers cross_entropy, nll_loss, mse_loss.
//
// Classes are dim 1 of the logits (dim 0 if there is no batch). If classes are sharded, ranks
// reduce only the largest logit, the sum of exponentials and the label's logit; no rank sends its
// logits. The mean over a sharded batch divides by the *global* number of labels that count.

#include "shardproof/ops/loss/loss.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/loss/loss_gradients.h"
#include "shardproof/ops/loss/loss_item.h"

namespace shardproof {

LossShape loss_shape(const OpCall& call) {
  LossShape loss;
  const Dims& logits = input_shape(call, 0);
  loss.class_dim = logits.size() > 1 ? 1 : 0;
  loss.classes = logits[loss.class_dim];
  for (int d = 0; d < loss.class_dim; ++d) loss.outer *= logits[d];
  for (int d = loss.class_dim + 1; d < logits.size(); ++d) loss.inner *= logits[d];
  loss.ignore = call.attrs->integer("ignore_index");
  loss.smoothing = call.attrs->has("label_smoothing") ? call.attrs->number("label_smoothing") : 0;
  loss.reduction = parse_loss_reduction("loss", call);
  loss.weighted = present(call, kLossWeight);
  return loss;
}

LossReduction parse_loss_reduction(std::string_view op, const OpCall& call) {
  const std::string& text = call.attrs->text("reduction");
  if (text == "none") return LossReduction::none;
  if (text == "sum") return LossReduction::sum;
  if (text == "mean") return LossReduction::mean;
  refuse(op, call, "reduction must be 'mean', 'sum' or 'none', found '{}'", text);
}

namespace {

std::string_view loss_name(LossKind kind) {
  return kind == LossKind::cross_entropy ? "cross_entropy" : "nll_loss";
}

std::vector<TensorMeta> infer_class_loss(LossKind kind, const OpCall& call) {
  auto op = loss_name(kind);
  require_floating(op, call, 0);
  require_integral(op, call, kLossLabels);
  const Dims& logits = input_shape(call, 0);
  if (logits.empty()) refuse(op, call, "the logits must have a dim of classes");
  Dims rows = logits;
  rows.erase(logits.size() > 1 ? 1 : 0);
  if (!(input_shape(call, kLossLabels) == rows))
    refuse(op, call, "the labels must have shape {}", to_string(rows));
  LossShape loss = loss_shape(call);
  if (loss.weighted && !(input_shape(call, kLossWeight) == Dims{loss.classes}))
    refuse(op, call, "weight must have shape [{}]", loss.classes);
  if (loss.smoothing < 0 || loss.smoothing > 1)
    refuse(op, call, "label_smoothing must be from 0 to 1, found {}", loss.smoothing);
  return {{input_meta(call, 0).dtype, loss.reduction == LossReduction::none ? rows : Dims{}}};
}

void check_labels(LossKind kind, const LossShape& loss, const LaneCall& lane) {
  const auto* labels = lane.in<int64_t>(kLossLabels);
  for (int64_t r = 0; r < loss.outer * loss.inner; ++r)
    if (labels[r] != loss.ignore && (labels[r] < 0 || labels[r] >= loss.classes))
      throw_bad_input("{}: label {} is out of range for {} classes", loss_name(kind), labels[r],
                      loss.classes);
}

Kernel prepare_class_loss(LossKind kind, const OpCall& call,
                          const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  const LossShape loss = loss_shape(call);
  LanePlan plan{{compute, DType::i64, compute}, {compute}, 0, {}};
  plan.inputs.resize(call.inputs.size());
  with_float(compute, [&](auto zero) {
    const LossItem<decltype(zero)> item{kind, loss};
    if (loss.reduction != LossReduction::none)
      plan.scratch_bytes = 2 * item.rows() * size_of(compute);
    set_items(plan, item, item.rows());
  });
  plan.body = [kind, loss, rows = plan.body](const LaneCall& lane) {
    check_labels(kind, loss, lane);
    rows(lane);
  };
  return lane_kernel(plan, call, outputs);
}

// A sharded class dim is lowered. Sharded rows run as they are, except for a mean, whose count is
// global.
std::vector<Strategy> class_loss_strategies(const OpCall& call) {
  LossShape loss = loss_shape(call);
  // Without classes every label is ignored, and the ops of the lowering have no class to read.
  if (loss.classes == 0) return {};
  std::string logits = letters(input_shape(call, 0).size()), labels = logits;
  char classes = logits[static_cast<size_t>(loss.class_dim)];
  labels.erase(static_cast<size_t>(loss.class_dim), 1);
  FactorOptions options;
  options.form_of[classes] = LocalExecution::lower_to_ops;
  if (loss.classes == 1) options.whole = classes;
  bool mean = loss.reduction == LossReduction::mean;
  if (mean)
    for (char c : labels) options.form_of[c] = LocalExecution::lower_to_ops;
  std::string notation = logits + "," + labels;
  if (call.inputs.size() > kLossWeight)
    notation += loss.weighted ? "," + std::string(1, classes) : ",";
  std::string out = loss.reduction == LossReduction::none ? labels : "";
  auto found = factor_strategies(notation + "->" + out, options);
  for (Strategy& s : found)
    if (s.form == LocalExecution::lower_to_ops && s.outputs[0].is_partial()) s.outputs[0] = R();
  return found;
}

OpCost class_loss_cost(const OpCall& call, const std::vector<TensorMeta>&) {
  OpCost total;
  for (const TensorMeta& input : call.inputs)
    if (!input.absent)
      total.bytes += static_cast<double>(element_count(input.shape) * size_of(input.dtype));
  total.flops = 5 * static_cast<double>(element_count(input_shape(call, 0)));
  return total;
}

Sample class_loss_sample(Dims logits, Attrs attrs, DType dtype = DType::f32, bool ignored = false) {
  Sample made = sample_of({{logits}, dtype}, std::move(attrs));
  Dims labels = logits;
  int64_t classes = logits[logits.size() > 1 ? 1 : 0];
  labels.erase(logits.size() > 1 ? 1 : 0);
  made.inputs.push_back({DType::i64, labels});
  made.inputs.push_back(absent_input());
  made.fills = {"uniform(-2, 2)", fmt::format("ints({}, {})", ignored ? -1 : 0, classes), ""};
  return made;
}

Attrs loss_attrs(const char* reduction, double smoothing = 0) {
  return {{"ignore_index", int64_t{-1}},
          {"reduction", std::string(reduction)},
          {"label_smoothing", smoothing}};
}

Sample weighted(Sample class_loss_sample) {
  const Dims& logits = class_loss_sample.inputs[0].shape;
  class_loss_sample.inputs[kLossWeight] = {class_loss_sample.inputs[0].dtype,
                                           {logits[logits.size() > 1 ? 1 : 0]}};
  class_loss_sample.fills[kLossWeight] = "uniform(0.5, 2)";
  return class_loss_sample;
}

OpRecord class_loss_record(LossKind kind) {
  OpRecord record;
  record.name = loss_name(kind);
  record.family = "loss";
  record.infer = [kind](const OpCall& call) { return infer_class_loss(kind, call); };
  record.prepare = [kind](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_class_loss(kind, call, outputs);
  };
  record.gradient = gradient_together([kind](Gradient& g) { return class_loss_gradient(g, kind); });
  record.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return class_loss_strategies(call);
  };
  record.rule.lower = [kind](const OpCall& call, const std::vector<Spec>& inputs,
                             LowerBuilder& build) { return lower_loss(kind, call, inputs, build); };
  record.cost = class_loss_cost;
  return record;
}

}  // namespace

void add_loss_ops(OpRegistry& ops) {
  OpRecord cross = class_loss_record(LossKind::cross_entropy);
  cross.summary = "-log softmax(logits) at the labels; classes in dim 1";
  cross.params = {params::tensor("input"),           params::tensor("target"),
                  params::optional_tensor("weight"), params::integer("ignore_index", -100),
                  params::text("reduction", "mean"), params::number("label_smoothing", 0.0)};
  cross.samples = [] {
    return std::vector<Sample>{
        class_loss_sample({5, 4}, loss_attrs("mean"), DType::f32, true),
        class_loss_sample({8, 32}, loss_attrs("mean")),
        class_loss_sample({4, 3}, loss_attrs("sum"), DType::f64, true),
        class_loss_sample({6, 5}, loss_attrs("none"), DType::bf16),
        class_loss_sample({2, 4, 3}, loss_attrs("mean")),
        class_loss_sample({5, 8}, loss_attrs("mean", 0.1)),
        class_loss_sample({7}, loss_attrs("sum")),
        weighted(class_loss_sample({5, 4}, loss_attrs("mean"), DType::f32, true)),
        weighted(class_loss_sample({2, 6, 3}, loss_attrs("sum"))),
        weighted(class_loss_sample({4, 4}, loss_attrs("none"), DType::bf16))};
  };
  add_soft_label_forms(cross);
  ops.add(std::move(cross));

  OpRecord nll = class_loss_record(LossKind::nll);
  nll.summary = "-x at the labels, of log-probabilities x; classes in dim 1";
  nll.params = {params::tensor("input"), params::tensor("target"),
                params::optional_tensor("weight"), params::integer("ignore_index", -100),
                params::text("reduction", "mean")};
  nll.samples = [] {
    auto attrs = [](const char* reduction) {
      return Attrs{{"ignore_index", int64_t{-1}}, {"reduction", std::string(reduction)}};
    };
    return std::vector<Sample>{class_loss_sample({5, 4}, attrs("mean")),
                               class_loss_sample({4, 6}, attrs("none")),
                               weighted(class_loss_sample({5, 4}, attrs("mean")))};
  };
  ops.add(std::move(nll));
  add_mse_loss(ops);
}

}  // namespace shardproof
