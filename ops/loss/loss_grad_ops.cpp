// Registers the gradients of losses by class: cross_entropy_grad(dy, x, target) and
// nll_loss_grad(dy, target). dy has one number per row. The first is dy times the derivative of the
// row's cross entropy by the logits x. They make one pass over the result and no table of hits.
//
// The softmax needs log(sum(exp(x))) of whole rows. If classes are sharded, cross_entropy_grad
// lowers: ranks reduce the largest logit and the sum of exponentials, and call the op again with
// `lse`.
#include <algorithm>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/loss/loss_grad_item.h"

namespace shardproof {
namespace {

using LossGrad = CrossEntropyGradItem<float>;
constexpr const char* kLossGrad = "cross_entropy_grad";
constexpr int kDy = LossGrad::kGradient, kLogits = LossGrad::kInput;
constexpr int kTarget = LossGrad::kLabels, kLogSum = LossGrad::kLogSum;

int class_dim(const OpCall& call) { return input_shape(call, kLogits).size() > 1 ? 1 : 0; }
double smoothing_of(const OpCall& call) { return call.attrs->number("label_smoothing"); }

std::vector<TensorMeta> infer_loss_grad(const OpCall& call) {
  require_floating(kLossGrad, call, kLogits);
  require_integral(kLossGrad, call, kTarget);
  const Dims& logits = input_shape(call, kLogits);
  if (logits.empty()) refuse(kLossGrad, call, "the logits must have a dim of classes");
  Dims rows = logits;
  rows.erase(class_dim(call));
  for (const int i : {kDy, kTarget, kLogSum}) {
    if (!present(call, i)) continue;
    if (i != kTarget) require_floating(kLossGrad, call, i);
    if (!(input_shape(call, i) == rows))
      refuse(kLossGrad, call, "{} must have shape {}",
             i == kDy       ? "dy"
             : i == kTarget ? "the labels"
                            : "lse",
             to_string(rows));
  }
  return {{input_meta(call, kLogits).dtype, logits}};
}

template <typename T>
CrossEntropyGradItem<T> loss_grad_item(const OpCall& call) {
  const Dims& logits = input_shape(call, kLogits);
  CrossEntropyGradItem<T> item{};
  item.classes = logits[class_dim(call)];
  item.inner = 1;
  for (int d = class_dim(call) + 1; d < logits.size(); ++d) item.inner *= logits[d];
  item.has_sum = present(call, kLogSum);
  return item;
}

// Sets the shares of a label and of all classes; a smoothed label gives an equal share of
// `smoothing` to all classes.
template <typename T>
void set_shares(CrossEntropyGradItem<T>& item, double smoothing, int64_t classes) {
  item.hit = static_cast<T>(1 - smoothing);
  item.spread = smoothing == 0 ? T{0} : static_cast<T>(smoothing / static_cast<double>(classes));
}

// The classes that a lane owns, of all classes.
struct OwnedClasses {
  Runs runs;
  int64_t all = 0;
};
OwnedClasses owned_classes(const LaneCall& lane, int dim) {
  const Dims& whole = (*lane.shard->inputs)[static_cast<size_t>(kLogits)].shape();
  return {lane.owned_input(kLogits, dim), whole[dim]};
}

template <typename T>
void run_loss_grad(CrossEntropyGradItem<T> item, int dim, double smoothing, int64_t rows,
                   const LaneCall& lane) {
  if (!lane.shard) {
    for (int64_t r = 0; r < rows; ++r) item(r, lane);
    return;
  }
  const OwnedClasses own = owned_classes(lane, dim);
  set_shares(item, smoothing, own.all);
  for (int64_t r = 0; r < rows; ++r)
    item.run(r, local_index(own.runs, item.label_of(r, lane)), lane);
}

Kernel prepare_loss_grad(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  LanePlan plan{{compute, compute, DType::i64, compute}, {compute}, 0, {}};
  plan.inputs.resize(call.inputs.size());
  const int dim = class_dim(call);
  const double smoothing = smoothing_of(call);
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    CrossEntropyGradItem<T> item = loss_grad_item<T>(call);
    set_shares(item, smoothing, item.classes);
    set_items(plan, item, element_count(input_shape(call, kTarget)));
    plan.body = [item, dim, smoothing, rows = plan.items](const LaneCall& lane) {
      run_loss_grad<T>(item, dim, smoothing, rows, lane);
    };
    plan.item_of_part = [item, dim, smoothing](const LaneCall& lane) mutable -> LaneItem {
      const OwnedClasses own = owned_classes(lane, dim);
      const std::optional<Run> run = single_run(own.runs);
      if (!run) return {};
      item.first = run->start;
      set_shares(item, smoothing, own.all);
      return share_item(item);
    };
  });
  return lane_kernel(plan, call, outputs);
}

// With lse each rank computes its own classes. The result is linear in dy.
std::vector<Strategy> loss_grad_strategies(const OpCall& call) {
  const std::string logits = letters(input_shape(call, kLogits).size());
  const char classes = logits[static_cast<size_t>(class_dim(call))];
  std::string rows = logits;
  rows.erase(static_cast<size_t>(class_dim(call)), 1);
  FactorOptions options;
  options.form_of[classes] =
      present(call, kLogSum) ? LocalExecution::needs_shard_index : LocalExecution::lower_to_ops;
  if (input_shape(call, kLogits)[class_dim(call)] <= 1) options.whole = classes;
  options.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {kDy});
  std::string notation = rows + "," + logits + "," + rows;
  if (call.inputs.size() > kLogSum) notation += "," + (present(call, kLogSum) ? rows : "");
  return factor_strategies(notation + "->" + logits, options);
}

std::vector<int> lower_loss_grad(const OpCall& call, LowerBuilder& build) {
  const Attrs over{{"dim", std::vector<int64_t>{class_dim(call)}}, {"keepdim", true}};
  const DType dtype = input_meta(call, kLogits).dtype, wide = compute_dtype(dtype);
  const int x = build.input(kLogits);
  const int logits = dtype == wide ? x : build.op("cast", {{"dtype", wide}}, {x});
  const int most = build.replicate_partials(build.op("amax", over, {logits}));
  const int powers = build.op("exp", {}, {build.op("sub", {}, {logits, most})});
  const int sum = build.replicate_partials(build.op("sum", over, {powers}));
  int log_sum = build.op("add", {}, {build.op("log", {}, {sum}), most});
  log_sum = build.op("squeeze", {{"dim", std::vector<int64_t>{class_dim(call)}}}, {log_sum});
  return build.ops(kLossGrad, *call.attrs, {build.input(kDy), x, build.input(kTarget), log_sum});
}

// By dy: the derivative without it. Gradient by x, with probabilities p: dy p v - p sum(dy p v). If
// lse is an input, the second term is part of its gradient.
FormulaTerms loss_grad_gradient(Gradient& g) {
  using F = FormulaTerm;
  const int dim = class_dim(g.call);
  const DType wide = compute_dtype(g[kLogits].dtype());
  const auto widened = [&](const F& x) { return x.dtype() == wide ? x : g.to(wide, x); };
  const auto beside = [&](const F& x) {
    return g.op("unsqueeze", {widened(x)}, {{"dim", int64_t{dim}}});
  };
  const auto over_classes = [&](const F& x, bool keep) {
    return g.op("sum", {x}, {{"dim", IntegerList{dim}}, {"keepdim", keep}});
  };
  const F v = widened(g.dy()), x = widened(g[kLogits]);
  const bool has_sum = g.has(kLogSum);
  FormulaTerms found(g.call.inputs.size(), g.none());
  if (g.wanted(kDy)) {
    // Inside `as` the op finds its classes by the placement of x, which a wider copy would not
    // have.
    const F slope = g.op(kLossGrad,
                         {g.op("ones", {widened(g[kDy])}), g.has_known_sizes() ? x : g[kLogits],
                          g[kTarget], has_sum ? widened(g[kLogSum]) : g.none()},
                         *g.call.attrs);
    found[kDy] = over_classes(v * widened(slope), false);
  }
  if (!g.wanted(kLogits) && !(has_sum && g.wanted(kLogSum))) return found;
  const F chances = has_sum ? g.op("exp", {x - beside(g[kLogSum])})
                            : g.op("softmax", {x}, {{"dim", int64_t{dim}}});
  const F moved = beside(g[kDy]) * chances * v;
  if (has_sum) {
    found[kLogits] = moved;
    found[kLogSum] = -over_classes(moved, false);
  } else {
    found[kLogits] = moved - chances * over_classes(moved, true);
  }
  return found;
}

Sample loss_grad_sample(const Dims& logits, DType dtype, double smoothing, bool has_sum) {
  Dims rows = logits;
  rows.erase(logits.size() > 1 ? 1 : 0);
  const DType wide = compute_dtype(dtype);
  const int64_t classes = logits[logits.size() > 1 ? 1 : 0];
  Sample sample{
      {{"label_smoothing", smoothing}},
      {{wide, rows}, {dtype, logits}, {DType::i64, rows}, {wide, rows}},
      {"uniform(-1, 1)", "uniform(-2, 2)", fmt::format("ints(-1, {})", classes), "uniform(1, 3)"}};
  if (!has_sum) sample.inputs.back() = absent_input();
  return sample;
}

OpRecord cross_entropy_grad_record() {
  OpRecord op;
  op.name = kLossGrad;
  op.family = "loss";
  op.summary = "dy of each row times the derivative of its cross_entropy by the logits";
  op.params = {params::tensor("dy"), params::tensor("x"), params::tensor("target"),
               params::optional_tensor("lse"), params::number("label_smoothing", 0.0)};
  op.infer = infer_loss_grad;
  op.prepare = prepare_loss_grad;
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return loss_grad_strategies(call);
  };
  op.rule.lower = [](const OpCall& call, const std::vector<Spec>&, LowerBuilder& build) {
    return lower_loss_grad(call, build);
  };
  op.rule.indexed_inputs = {kLogits};
  op.gradient = gradient_together(loss_grad_gradient);
  op.cost = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const auto elements = static_cast<double>(element_count(input_shape(call, kLogits)));
    return OpCost{6 * elements,
                  2 * elements * static_cast<double>(size_of(input_meta(call, kLogits).dtype))};
  };
  op.samples = [] {
    return std::vector<Sample>{loss_grad_sample({5, 4}, DType::f32, 0, false),
                               loss_grad_sample({5, 3}, DType::f64, 0.1, false),
                               loss_grad_sample({6, 5}, DType::bf16, 0, false),
                               loss_grad_sample({2, 4, 3}, DType::f32, 0.1, true),
                               loss_grad_sample({5, 8}, DType::f32, 0, true),
                               loss_grad_sample({6, 4}, DType::bf16, 0.1, true),
                               loss_grad_sample({7}, DType::f32, 0, false),
                               loss_grad_sample({1, 3}, DType::f32, 0, false),
                               loss_grad_sample({3, 1}, DType::f32, 0, true)};
  };
  return op;
}

constexpr const char* kLabelGrad = "nll_loss_grad";

// Returns the shape of the result, [N, classes, ..] for rows [N, ..].
Dims with_classes(const OpCall& call) {
  Dims shape;
  const Dims& rows = input_shape(call, 1);
  for (int d = 0; d <= rows.size(); ++d) {
    if (d == (rows.empty() ? 0 : 1)) shape.push_back(call.attrs->integer("num_classes"));
    if (d < rows.size()) shape.push_back(rows[d]);
  }
  return shape;
}

std::vector<TensorMeta> infer_label_grad(const OpCall& call) {
  require_floating(kLabelGrad, call, 0);
  require_integral(kLabelGrad, call, 1);
  if (!(input_shape(call, 0) == input_shape(call, 1)))
    refuse(kLabelGrad, call, "dy must have the shape of the labels, {}",
           to_string(input_shape(call, 1)));
  if (call.attrs->integer("num_classes") < 0)
    refuse(kLabelGrad, call, "num_classes must not be negative, found {}",
           call.attrs->integer("num_classes"));
  if (input_shape(call, 1).size() >= kMaxDims)
    refuse(kLabelGrad, call, "the result would have more than {} dims", kMaxDims);
  return {{input_meta(call, 0).dtype, with_classes(call)}};
}

Kernel prepare_label_grad(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  LanePlan plan{{compute, DType::i64}, {compute}, 0, {}};
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    const Dims& rows = input_shape(call, 1);
    LabelGradItem<T> item{call.attrs->integer("num_classes"), 1};
    for (int d = 1; d < rows.size(); ++d) item.inner *= rows[d];
    set_items(plan, item, element_count(outputs[0].shape));
    plan.body = [item, all = plan.items, count = element_count(rows)](const LaneCall& lane) {
      std::fill_n(lane.out<T>(0), all, T{0});
      for (int64_t r = 0; r < count; ++r) item.write_label(r, lane);
    };
  });
  return lane_kernel(plan, call, outputs);
}

OpRecord nll_loss_grad_record() {
  OpRecord op;
  op.name = kLabelGrad;
  op.family = "loss";
  op.summary = "-dy of each row at its label, 0 at the other classes";
  op.params = {params::tensor("dy"), params::tensor("target"), params::integer("num_classes")};
  op.infer = infer_label_grad;
  op.prepare = prepare_label_grad;
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    const std::string rows = letters(input_shape(call, 1).size());
    FactorOptions options;
    options.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {0});
    const std::string first = rows.substr(0, 1), rest = rows.empty() ? "" : rows.substr(1);
    return factor_strategies(rows + "," + rows + "->" + first + "1" + rest, options);
  };
  // Gradient by dy: the sum over classes of the result for dy = 1, times the cotangent.
  op.gradient = gradients(
      {[](Gradient& g) {
         const FormulaTerm hits = g.op(kLabelGrad, {g.op("ones", {g[0]}), g[1]}, *g.call.attrs);
         const int64_t dim = g[1].dims() == 0 ? 0 : 1;
         return g.op("sum", {g.dy() * hits}, {{"dim", IntegerList{dim}}});
       },
       nullptr});
  op.samples = [] {
    const auto sample = [](const Dims& rows, DType dtype) {
      return Sample{{{"num_classes", int64_t{4}}},
                    {{dtype, rows}, {DType::i64, rows}},
                    {"uniform(-1, 1)", "ints(-1, 4)"}};
    };
    return std::vector<Sample>{sample({5}, DType::f32), sample({6}, DType::bf16),
                               sample({2, 3}, DType::f64), sample({1}, DType::f32),
                               sample({}, DType::f32)};
  };
  return op;
}

}  // namespace

void add_loss_grad_ops(OpRegistry& ops) {
  ops.add(cross_entropy_grad_record());
  ops.add(nll_loss_grad_record());
}

}  // namespace shardproof
