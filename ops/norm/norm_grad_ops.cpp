// Registers layer_norm_grad(dy, x, weight) and rms_norm_grad(dy, x, weight): the gradients by input
// and by weight in one pass over the rows. torch's native_layer_norm_backward also sums dy for the
// bias. The gradient by the weight has the compute dtype, because ranks that share the rows add
// theirs up.
//
// If a normalized dim is sharded, the op lowers: each mean of the formula is reduced.
#include <algorithm>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/norm/norm_grad_item.h"
#include "shardproof/ops/norm/norm_gradients.h"

namespace shardproof {
namespace {

constexpr int kGradient = NormGradItem<float>::kGradient, kInput = NormGradItem<float>::kInput;
constexpr int kWeight = NormGradItem<float>::kWeight;

Dims normalized_shape(const OpCall& call) {
  const Dims& shape = input_shape(call, kInput);
  Dims last;
  for (int d = shape.size() - static_cast<int>(normalized_dims(call)); d < shape.size(); ++d)
    last.push_back(shape[d]);
  return last;
}

std::vector<TensorMeta> infer_norm_grad(Norm norm, const OpCall& call) {
  const char* op = norm_grad_name(norm);
  require_floating(op, call, kInput);
  const DType dtype = same_dtype(op, call, {kGradient, kInput});
  const Dims& shape = input_shape(call, kInput);
  if (!(input_shape(call, kGradient) == shape))
    refuse(op, call, "dy must have the shape of x, {}", to_string(shape));
  const int64_t dims = normalized_dims(call);
  if (dims < 1 || dims > shape.size())
    refuse(op, call, "dims must be from 1 to {}, found {}", shape.size(), dims);
  const Dims last = normalized_shape(call);
  if (present(call, kWeight)) {
    require_floating(op, call, kWeight);
    if (!(input_shape(call, kWeight) == last))
      refuse(op, call, "weight must have shape {}", to_string(last));
  }
  return {{dtype, shape}, {compute_dtype(dtype), last}};
}

template <typename T>
void run_norm_grad(const NormGradItem<T>& item, const LaneCall& lane) {
  std::fill_n(lane.out<T>(1), item.norm.row, T{0});
  for (int64_t r = 0; r < item.rows; ++r) {
    item(r, lane);
    item.add_row(r, lane);
  }
}

Kernel prepare_norm_grad(Norm norm, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  const NormRows rows = norm_rows(input_shape(call, kInput), normalized_dims(call));
  LanePlan plan{std::vector<DType>(call.inputs.size(), compute),
                {compute, compute},
                2 * rows.rows * size_of(compute),
                {}};
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    const NormItem<T> one{norm == Norm::layer, false, rows.row, static_cast<T>(norm_eps(call))};
    const NormGradItem<T> item{one, rows.rows};
    set_items(plan, item, rows.rows);
    plan.body = [item](const LaneCall& lane) { run_norm_grad<T>(item, lane); };
  });
  return lane_kernel(plan, call, outputs);
}

// Sharded rows give partial sums of the gradient by the weight. Both results are linear in dy. The
// gradient by the input is linear in the weight, too. If a normalized dim is sharded, x may stay
// whole: its moments then need no call.
std::vector<Strategy> norm_grad_strategies(const OpCall& call) {
  const Dims& shape = input_shape(call, kInput);
  const std::string names = letters(shape.size());
  const size_t first = names.size() - static_cast<size_t>(normalized_dims(call));
  const std::string last = names.substr(first);
  std::string notation = names + "," + names;
  if (call.inputs.size() > kWeight) notation += "," + (present(call, kWeight) ? last : "");
  FactorOptions options;
  options.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {kGradient});
  for (const char c : last) {
    options.form_of[c] = LocalExecution::lower_to_ops;
    if (shape[static_cast<int>(names.find(c))] == 1) options.whole += c;
  }
  std::vector<Strategy> found = factor_strategies(notation + "->" + names + "," + last, options);
  const size_t cuts = found.size();
  for (size_t i = 0; i < cuts; ++i) {
    if (found[i].form != LocalExecution::lower_to_ops) continue;
    found.push_back(found[i]);
    found.back().inputs[kInput] = R();
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
    if (present(call, kWeight)) found.push_back({{R(), R(), P(op)}, {P(op), R()}});
  return found;
}

std::vector<int> lower_norm_grad(Norm norm, const OpCall& call, LowerBuilder& build) {
  using F = FormulaTerm;
  const Formula f(norm_grad_name(norm), call, build);
  const Dims& shape = input_shape(call, kInput);
  const DType dtype = input_meta(call, kInput).dtype, wide = compute_dtype(dtype);
  IntegerList leading, last;
  for (int d = 0; d < shape.size(); ++d)
    (d < shape.size() - normalized_dims(call) ? leading : last).push_back(d);
  const auto count = static_cast<double>(element_count(normalized_shape(call)));
  const auto widened = [&](int i) { return f[i].dtype() == wide ? f[i] : f.to(wide, f[i]); };
  const NormMean mean = [&](const F& x) {
    const F sum = f.op("sum", {x}, {{"dim", last}, {"keepdim", true}});
    return F{&build, build.replicate_partials(sum.handle)} / count;
  };
  const F dy = widened(kGradient);
  const NormalTerms terms = normal_terms(f, widened(kInput), norm, norm_eps(call), mean);
  const F share = f.has(kWeight) ? dy * widened(kWeight) : dy;
  const F moved = norm_slope(terms, share, norm, mean);
  const F normal = dy * terms.normal;
  return {dtype == wide ? moved.handle : f.to(dtype, moved).handle,
          leading.empty() ? normal.handle : f.op("sum", {normal}, {{"dim", leading}}).handle};
}

std::vector<Sample> norm_grad_samples() {
  const std::vector<std::string> fills = {"uniform(-1, 1)", "uniform(-2, 2)", "uniform(0.5, 2)"};
  const auto sample = [&](const Dims& x, const Dims& weight, int64_t dims, DType dtype) {
    return sample_of({{x, x, weight}, dtype, fills}, {{"eps", 1e-5}, {"dims", dims}});
  };
  Sample bare = sample({5, 4}, {4}, 1, DType::f32);
  bare.inputs.back() = absent_input();
  return {sample({3, 2, 7}, {7}, 1, DType::f32), sample({4, 8}, {8}, 1, DType::bf16),
          sample({3, 2, 5}, {2, 5}, 2, DType::f64), sample({4, 1, 3}, {1, 3}, 2, DType::f32), bare};
}

OpRecord norm_grad_record(Norm norm, const char* summary) {
  OpRecord op;
  op.name = norm_grad_name(norm);
  op.family = "norm";
  op.summary = summary;
  op.params = {params::tensor("dy"), params::tensor("x"), params::optional_tensor("weight"),
               norm == Norm::layer ? params::number("eps", 1e-5)
                                   : params::optional("eps", ParamKind::number),
               params::integer("dims", 1)};
  op.infer = [norm](const OpCall& call) { return infer_norm_grad(norm, call); };
  op.prepare = [norm](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_norm_grad(norm, call, outputs);
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return norm_grad_strategies(call);
  };
  op.rule.lower = [norm](const OpCall& call, const std::vector<Spec>&, LowerBuilder& build) {
    return lower_norm_grad(norm, call, build);
  };
  op.gradient = gradient_together([norm](Gradient& g) {
    return norm_grad_gradient(g, norm, normalized_dims(g.call), norm_eps(g.call));
  });
  op.cost = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const auto elements = static_cast<double>(element_count(input_shape(call, kInput)));
    return OpCost{16 * elements,
                  3 * elements * static_cast<double>(size_of(input_meta(call, kInput).dtype))};
  };
  op.samples = norm_grad_samples;
  return op;
}

}  // namespace

void add_norm_grad_ops(OpRegistry& ops) {
  ops.add(norm_grad_record(Norm::layer, "the gradients of layer_norm by x and weight, from dy"));
  ops.add(
      with_kinks(norm_grad_record(Norm::rms, "the gradients of rms_norm by x and weight, from dy"),
                 "a row near 0"));
}

}  // namespace shardproof
