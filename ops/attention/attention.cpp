// Registers sdpa: softmax(q k^T * scale) v over [..., heads, seq, head_dim] (torch:
// scaled_dot_product_attention). With fewer kv heads queries are grouped: query head h reads kv
// head h / (heads / kv heads). With `causal` a query attends to keys up to its own global index. A
// second result, lse, is the logarithm of the sum of a row's exponentials (torch: logsumexp).
//
// The kernel computes a row of scores, subtracts its maximum, exponentiates the row and sums it in
// the order of the keys. It computes in f32 (f64 for f64). A row's bits depend only on its query
// and on the keys and values that it attends to. A call with a mask decomposes into matmul and
// softmax.
#include "shardproof/ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/ops/attention/attention_blocks.h"
#include "shardproof/ops/attention/attention_gradients.h"
#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

constexpr int kQuery = AttentionItem<float>::kQuery, kKey = AttentionItem<float>::kKey;
constexpr int kValue = AttentionItem<float>::kValue, kMask = 3;

int64_t heads_of(const Dims& shape) { return shape.size() < 3 ? 1 : shape[shape.size() - 3]; }

bool has_lse(const OpCall& call) {
  return call.attrs->has("return_lse") && call.attrs->flag("return_lse");
}

std::vector<TensorMeta> infer_sdpa(const OpCall& call) {
  const Dims shape = attention_shape("sdpa", call, kQuery);
  const DType dtype = input_meta(call, kQuery).dtype;
  std::vector<TensorMeta> results{{dtype, shape}};
  if (has_lse(call)) results.push_back({compute_dtype(dtype), log_sum_shape(call, kQuery)});
  return results;
}

Attention sdpa_of(const OpCall& call) {
  Attention a = attention_of(call, kQuery);
  a.has_lse = has_lse(call);
  return a;
}

Kernel prepare_sdpa(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  const Attention a = sdpa_of(call);
  LanePlan plan{std::vector<DType>(call.inputs.size(), compute),
                std::vector<DType>(outputs.size(), compute),
                0,
                {}};
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    const AttentionForward<T> forward(a);
    plan.scratch_bytes = forward.scratch_bytes();
    plan.body = [forward](const LaneCall& lane) { forward.run(lane); };
    plan.item = share_item(AttentionItem<T>{a});
    plan.items = a.items();
    plan.item_of_part = [a = a](const LaneCall& lane) mutable -> LaneItem {
      const std::optional<Run> own = single_run(lane.owned_input(kQuery, a.query_dim));
      if (!own) return {};
      a.first_query = own->start;
      return share_item(AttentionItem<T>{a});
    };
  });
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> sdpa_strategies(const OpCall& call, const std::vector<TensorMeta>& outputs,
                                      int64_t axis_size) {
  const Attention a = sdpa_of(call);
  const int dims = input_shape(call, kQuery).size();
  std::vector<Strategy> found;
  for (const AttentionCut& cut : attention_cuts(a, dims, axis_size))
    found.push_back({{cut.rows, cut.keys, cut.keys}, {cut.rows, cut.rows}, cut.form, cut.layout});
  const Placement values = S(dims - 1);
  found.push_back({{R(), R(), values}, {values, R()}});
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg})  // the result is linear in v
    found.push_back({{R(), R(), P(op)}, {P(op), R()}});
  for (Strategy& s : found) {
    s.inputs.resize(call.inputs.size(), R());  // an absent mask
    s.outputs.resize(outputs.size(), R());
  }
  return found;
}

OpCost sdpa_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const Attention a = sdpa_of(call);
  OpCost total{attention_pairs(a) * static_cast<double>(a.dim + a.value_dim), 0};
  auto add = [&](const TensorMeta& meta) {
    total.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  };
  for (const TensorMeta& input : call.inputs)
    if (!input.absent) add(input);
  for (const TensorMeta& output : outputs) add(output);
  return total;
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// A statement with two names also returns lse.
bool returns_lse(const OpCall& call) { return has_lse(call) || call.wanted == 2; }

// Decomposes a call with a mask. For true or 0 a query attends to the key; for false it does not. A
// number is added to the score. A query that attends to no key gives zeros. NaN in a hidden key or
// value gives NaN, as in torch, where it is multiplied by a weight of 0.
std::vector<FormulaTerm> masked(Formula& f) {
  infer_sdpa(f.call);
  const Attention a = sdpa_of(f.call);
  const DType dtype = f[kQuery].dtype(), wide = compute_dtype(dtype);
  const auto widened = [&](int input) {
    return f[input].dtype() == wide ? f[input] : f.to(wide, f[input]);
  };
  const auto grouped = [&](const FormulaTerm& x) {
    if (a.kv_heads == a.heads || a.kv_heads == 0) return x;
    return f.op("repeat_interleave", {x},
                {{"repeats", a.heads / a.kv_heads}, {"dim", int64_t{x.dims() - 3}}});
  };
  const FormulaTerm keys = f.op("t", {grouped(widened(kKey))});
  FormulaTerm scores = f.op("matmul", {widened(kQuery), keys}) * a.scale;
  const bool chooses = f[kMask].dtype() == DType::boolean;
  FormulaTerm attends = chooses ? f[kMask] : f.op("ne", {f[kMask], kHidden});
  // Added, not chosen by `where`, so that NaN stays.
  scores = scores + (chooses ? f.where(f[kMask], 0.0, kHidden) : widened(kMask));
  if (a.causal) {
    const FormulaTerm past = f.op("causal_mask", {f[kQuery], f[kKey]});
    scores = f.where(past, scores, kHidden);
    attends = f.op("logical_and", {attends, past});
  }
  // A query that attends to no key has weights 0, and NaN where a score is NaN; its lse is -inf.
  const FormulaTerm any = f.op("any", {attends}, {{"dim", IntegerList{-1}}, {"keepdim", true}});
  const FormulaTerm none = f.where(f.op("isnan", {scores}), scores, 0.0);
  const FormulaTerm seen = f.where(any, scores, 0.0);
  const FormulaTerm shares = f.op("softmax", {seen}, {{"dim", int64_t{-1}}});
  const FormulaTerm out = f.op("matmul", {f.where(any, shares, none), grouped(widened(kValue))});
  std::vector<FormulaTerm> results{dtype == wide ? out : f.to(dtype, out)};
  if (!returns_lse(f.call)) return results;
  const IntegerList last{-1};
  const FormulaTerm all = f.op("any", {attends}, {{"dim", last}, {"keepdim", false}});
  results.push_back(f.where(all, f.op("logsumexp", {seen}, {{"dim", last}, {"keepdim", false}}),
                            f.op("sum", {none}, {{"dim", last}, {"keepdim", false}}) + kHidden));
  return results;
}

std::vector<Sample> sdpa_samples() {
  Attrs full{{"causal", false}}, causal{{"causal", true}};
  Attrs both = causal;
  both.set("return_lse", true);
  Sample hidden = sample_of({{{2, 4, 5, 2}, {2, 2, 3, 2}, {2, 2, 3, 2}, {5, 3}}}, full);
  Sample added = hidden, masked_both = hidden;
  masked_both.attrs.set("return_lse", true);
  hidden.inputs[kMask].dtype = DType::boolean;
  hidden.fills = {"", "", "", "ones"};
  return {hidden,
          added,
          masked_both,
          sample_of({{{2, 4, 5, 4}, {2, 4, 5, 4}, {2, 4, 5, 4}}}, causal),
          sample_of({{{2, 8, 6, 4}, {2, 4, 6, 4}, {2, 4, 6, 4}}, DType::bf16}, causal),
          sample_of({{{1, 6, 3, 2}, {1, 2, 7, 2}, {1, 2, 7, 5}}, DType::f64}, full),
          sample_of({{{4, 4, 4}, {1, 4, 4}, {1, 4, 4}}}, full),
          sample_of({{{3, 2}, {4, 2}, {4, 3}}}, full),
          sample_of({{{2, 4, 5, 3}, {2, 2, 4, 3}, {2, 2, 4, 3}}}, both),
          sample_of({{{3, 5, 2}, {3, 5, 2}, {3, 5, 2}}, DType::bf16}, both)};
}

}  // namespace

Attention attention_of(const OpCall& call, int query) {
  const Dims &q = input_shape(call, query), &k = input_shape(call, query + 1);
  Attention a;
  a.query_dim = q.size() - 2;
  for (int d = 0; d < q.size() - 3; ++d) a.batch *= q[d];
  a.heads = heads_of(q);
  a.kv_heads = heads_of(k);
  a.queries = q[q.size() - 2];
  a.keys = k[k.size() - 2];
  a.dim = q.back();
  a.value_dim = input_shape(call, query + 2).back();
  a.causal = call.attrs->flag("causal");
  a.scale = call.attrs->has("scale")
                ? call.attrs->number("scale")
                : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(a.dim, 1)));
  return a;
}

Dims attention_shape(const char* op, const OpCall& call, int query) {
  require_floating(op, call, query);
  same_dtype(op, call, {query, query + 1, query + 2});
  const Dims &q = input_shape(call, query), &k = input_shape(call, query + 1),
             &v = input_shape(call, query + 2);
  if (q.size() < 2 || k.size() != q.size() || v.size() != q.size())
    refuse(op, call, "q, k and v must be [..., heads, seq, head_dim] with equally many dims");
  int dims = q.size();
  for (int d = 0; d < dims - 3; ++d)
    if (q[d] != k[d] || q[d] != v[d])
      refuse(op, call, "dim {} is a batch dim and must have one size in q, k and v", d);
  if (q.back() != k.back())
    refuse(op, call, "the head_dims of q and k differ, {} and {}", q.back(), k.back());
  if (k[dims - 2] != v[dims - 2])
    refuse(op, call, "the lengths of k and v differ, {} and {}", k[dims - 2], v[dims - 2]);
  int64_t heads = heads_of(q), kv = heads_of(k);
  if (kv != heads_of(v))
    refuse(op, call, "k and v must have equally many heads, found {} and {}", kv, heads_of(v));
  if (heads != kv && (kv == 0 || heads % kv != 0))
    refuse(op, call, "the {} query heads must be a multiple of the {} kv heads", heads, kv);
  Dims shape = q;
  shape[dims - 1] = v.back();
  return shape;
}

Dims log_sum_shape(const OpCall& call, int query) {
  Dims shape = input_shape(call, query);
  shape.erase(shape.size() - 1);
  return shape;
}

double attention_pairs(const Attention& a) {
  return 2 * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.queries) *
         static_cast<double>(a.keys) * (a.causal ? 0.5 : 1.0);
}

// Query heads of one group must stay with their kv head. Equal counts are sharded in the same way.
// Fewer kv heads are sharded only in equal parts, which keep groups together; a single kv head
// stays whole.
std::vector<AttentionCut> attention_cuts(const Attention& a, int dims, int64_t axis_size) {
  std::vector<AttentionCut> found;
  for (int d = 0; d < dims - 3; ++d) found.push_back({S(d), S(d)});
  if (dims > 2) {
    const Placement cut = S(dims - 3);
    if (a.kv_heads == 1 && a.heads > 1)
      found.push_back({cut, R()});
    else if (a.kv_heads == a.heads)
      found.push_back({cut, cut});
    else if (a.kv_heads % axis_size == 0)
      found.push_back({cut, cut, LocalExecution::same_op, ShardLayout::even});
  }
  const LocalExecution form =
      a.causal ? LocalExecution::needs_shard_index : LocalExecution::same_op;
  found.push_back({S(dims - 2), R(), form});
  return found;
}

void add_attention_ops(OpRegistry& ops) {
  OpRecord sdpa;
  sdpa.name = "sdpa";
  sdpa.family = "attention";
  sdpa.summary =
      "softmax(q k^T scale) v over [..., heads, seq, head_dim]; grouped if there are fewer kv "
      "heads; a second result is lse";
  sdpa.params = {params::tensor("query"),
                 params::tensor("key"),
                 params::tensor("value"),
                 params::boolean("causal", false),
                 params::optional("scale", ParamKind::number),
                 params::optional_tensor("mask"),
                 params::optional("return_lse", ParamKind::boolean)};
  sdpa.infer = infer_sdpa;
  sdpa.prepare = prepare_sdpa;
  sdpa.gradient = gradient_together(sdpa_gradient);
  sdpa.rule.strategies = sdpa_strategies;
  sdpa.cost = sdpa_cost;
  sdpa.samples = sdpa_samples;
  decompose_when(
      sdpa, [](const OpCall& call) { return returns_lse(call) && !has_lse(call); },
      [](Formula& f) {
        Attrs attrs = *f.call.attrs;
        attrs.set("return_lse", true);
        return f.ops("sdpa", {f[kQuery], f[kKey], f[kValue]}, std::move(attrs));
      });
  decompose_when(
      sdpa, [](const OpCall& call) { return present(call, kMask); }, masked);
  ops.add(std::move(sdpa));
  ops.add(attention_grad_record());
  ops.add(causal_mask_record());
}

}  // namespace shardproof
