// Registers dq, dk, dv = sdpa_grad(dy, q, k, v, y, lse, dlse): the gradients of sdpa in one pass
// over its scores. Scores are computed again block by block (Dao, FlashAttention-2, arXiv
// 2307.08691; torch: _scaled_dot_product_flash_attention_backward). Memory grows with the number of
// keys, not with its product with the queries. ops/attention/attention_item.h has the formulas.
//
// y, lse and dlse may be left out. Without lse and y the kernel computes the sums of a row from all
// its keys. With both, each rank may have some of the keys. Results have the compute dtype, because
// ranks that share the queries or keys add theirs up.
#include <algorithm>

#include "shardproof/ops/attention/attention.h"
#include "shardproof/ops/attention/attention_blocks.h"
#include "shardproof/ops/attention/attention_gradients.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

using Grad = AttentionGradItem<float>;
constexpr const char* kGradOp = "sdpa_grad";
constexpr int kGradDy = Grad::kGradient, kGradQuery = Grad::kQuery, kGradKey = Grad::kKey;
constexpr int kGradValue = Grad::kValue, kGradResult = Grad::kResult;
constexpr int kGradLogSum = Grad::kLogSum, kGradOfLogSum = Grad::kLogSumGradient;

std::vector<TensorMeta> infer_sdpa_grad(const OpCall& call) {
  const Dims shape = attention_shape(kGradOp, call, kGradQuery);
  const Dims rows = log_sum_shape(call, kGradQuery);
  const auto expect = [&](int input, const char* name, const Dims& expected) {
    if (!present(call, input)) return;
    require_floating(kGradOp, call, input);
    if (!(input_shape(call, input) == expected))
      refuse(kGradOp, call, "{} must have shape {}", name, to_string(expected));
  };
  expect(kGradDy, "dy", shape);
  expect(kGradResult, "y", shape);
  expect(kGradLogSum, "lse", rows);
  expect(kGradOfLogSum, "dlse", rows);
  const DType wide = compute_dtype(input_meta(call, kGradQuery).dtype);
  return {{wide, input_shape(call, kGradQuery)},
          {wide, input_shape(call, kGradKey)},
          {wide, input_shape(call, kGradValue)}};
}

Kernel prepare_sdpa_grad(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = outputs[0].dtype;
  const Attention a = attention_of(call, kGradQuery);
  LanePlan plan{
      std::vector<DType>(call.inputs.size(), compute), {compute, compute, compute}, 0, {}};
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    const AttentionBackward<T> backward(a);
    plan.scratch_bytes = backward.scratch_bytes();
    plan.body = [backward](const LaneCall& lane) { backward.run(lane); };
    plan.item = share_item(AttentionGradItem<T>{a});
    plan.items = std::max<int64_t>(a.items(), 1);  // dk and dv are 0 without queries
    plan.item_of_part = [a = a](const LaneCall& lane) mutable -> LaneItem {
      const std::optional<Run> queries = single_run(lane.owned_input(kGradQuery, a.query_dim));
      const std::optional<Run> keys = single_run(lane.owned_input(kGradKey, a.query_dim));
      if (!queries || !keys) return {};
      a.first_query = queries->start;
      a.first_key = keys->start;
      return share_item(AttentionGradItem<T>{a});
    };
  });
  return lane_kernel(plan, call, outputs);
}

// Placements of one strategy. Present inputs without a row for each query are R.
struct GradPlacements {
  Placement dy = R(), query = R(), key = R(), value = R(), result = R(), log_sum = R();
  Placement log_sum_gradient = R();
  Placement by_query = R(), by_key = R(), by_value = R();

  Strategy strategy(size_t inputs, LocalExecution form = LocalExecution::same_op,
                    ShardLayout layout = ShardLayout::any) const {
    Strategy made{{dy, query, key, value, result, log_sum, log_sum_gradient},
                  {by_query, by_key, by_value},
                  form,
                  layout};
    made.inputs.resize(inputs, R());
    return made;
  }
};

// Ranks that share keys and values add up dk and dv, those that share queries dq. All results are
// linear in dy and dlse together; without dlse they are linear in v and y together. So a cut of the
// dim of v gives parts of dP and D.
std::vector<Strategy> sdpa_grad_strategies(const OpCall& call, int64_t axis_size) {
  const Attention a = attention_of(call, kGradQuery);
  const int dims = input_shape(call, kGradQuery).size();
  const size_t inputs = call.inputs.size();
  std::vector<Strategy> found;
  for (const AttentionCut& cut : attention_cuts(a, dims, axis_size)) {
    const Placement shared = cut.keys.is_shard() ? cut.keys : P(ReduceOp::sum);
    found.push_back(GradPlacements{cut.rows, cut.rows, cut.keys, cut.keys, cut.rows, cut.rows,
                                   cut.rows, cut.rows, shared, shared}
                        .strategy(inputs, cut.form, cut.layout));
  }
  if (present(call, kGradResult) && present(call, kGradLogSum)) {
    GradPlacements keys;
    keys.key = keys.value = keys.by_key = keys.by_value = S(dims - 2);
    keys.by_query = P(ReduceOp::sum);
    found.push_back(keys.strategy(
        inputs, a.causal ? LocalExecution::needs_shard_index : LocalExecution::same_op));
  }
  GradPlacements parts;
  parts.dy = parts.value = parts.result = parts.by_value = S(dims - 1);
  parts.log_sum_gradient = parts.by_query = parts.by_key = P(ReduceOp::sum);
  found.push_back(parts.strategy(inputs));
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
    GradPlacements by_dy, by_v;
    by_dy.dy = by_dy.log_sum_gradient = P(op);
    by_dy.by_query = by_dy.by_key = by_dy.by_value = P(op);
    found.push_back(by_dy.strategy(inputs));
    if (present(call, kGradOfLogSum)) continue;
    by_v.value = by_v.result = by_v.by_query = by_v.by_key = P(op);
    found.push_back(by_v.strategy(inputs));
  }
  for (Strategy& s : found)  // absent inputs
    for (size_t i = 0; i < inputs; ++i)
      if (call.inputs[i].absent) s.inputs[i] = R();
  return found;
}

OpCost sdpa_grad_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const Attention a = attention_of(call, kGradQuery);
  OpCost total{attention_pairs(a) * static_cast<double>(3 * a.dim + 2 * a.value_dim), 0};
  const auto add = [&](const TensorMeta& meta) {
    if (!meta.absent)
      total.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  };
  for (const TensorMeta& input : call.inputs) add(input);
  for (const TensorMeta& output : outputs) add(output);
  return total;
}

// Returns a call with all inputs; `left_out` are then removed.
Sample grad_sample(const std::array<Dims, 3>& qkv, DType dtype, bool causal,
                   const std::vector<int>& left_out) {
  Dims y = qkv[0], rows = qkv[0];
  y[y.size() - 1] = qkv[2].back();
  rows.erase(rows.size() - 1);
  Sample sample =
      sample_of({{y, qkv[0], qkv[1], qkv[2], y, rows, rows}, dtype}, {{"causal", causal}});
  sample.fills.assign(sample.inputs.size(), "uniform(-1, 1)");
  sample.fills[kGradLogSum] = "uniform(0.5, 2)";
  for (const int i : {kGradLogSum, kGradOfLogSum})
    sample.inputs[static_cast<size_t>(i)].dtype = compute_dtype(dtype);
  for (const int i : left_out) sample.inputs[static_cast<size_t>(i)] = absent_input();
  return sample;
}

std::vector<Sample> sdpa_grad_samples() {
  const std::vector<int> none, bare{kGradResult, kGradLogSum, kGradOfLogSum};
  return {grad_sample({Dims{2, 4, 5, 3}, {2, 4, 5, 3}, {2, 4, 5, 3}}, DType::f32, true, bare),
          grad_sample({Dims{2, 4, 5, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}}, DType::f32, true, none),
          grad_sample({Dims{2, 4, 3, 2}, {2, 4, 6, 2}, {2, 4, 6, 2}}, DType::bf16, false, none),
          grad_sample({Dims{1, 6, 3, 2}, {1, 1, 5, 2}, {1, 1, 5, 4}}, DType::f64, false,
                      {kGradOfLogSum}),
          grad_sample({Dims{4, 4, 2}, {1, 4, 2}, {1, 4, 3}}, DType::f32, true,
                      {kGradResult, kGradOfLogSum}),
          grad_sample({Dims{3, 2}, {4, 2}, {4, 3}}, DType::f32, false, {kGradResult, kGradLogSum})};
}

}  // namespace

OpRecord attention_grad_record() {
  OpRecord op;
  op.name = kGradOp;
  op.family = "attention";
  op.summary = "the gradients of sdpa by q, k and v, from dy";
  op.params = {params::tensor("dy"),
               params::tensor("query"),
               params::tensor("key"),
               params::tensor("value"),
               params::optional_tensor("y"),
               params::optional_tensor("lse"),
               params::optional_tensor("dlse"),
               params::boolean("causal", false),
               params::optional("scale", ParamKind::number)};
  op.infer = infer_sdpa_grad;
  op.prepare = prepare_sdpa_grad;
  // Inside `as` the cotangent has no placement, but inputs of the forward call may have some.
  op.rule.indexed_inputs = {kGradQuery, kGradKey, kGradValue};
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t axis_size) {
    return sdpa_grad_strategies(call, axis_size);
  };
  op.gradient = gradient_together(sdpa_grad_gradient);
  op.cost = sdpa_grad_cost;
  op.samples = sdpa_grad_samples;
  return op;
}

}  // namespace shardproof
