// Registers sdpa: softmax(q k^T * scale) v over [..., heads, seq, head_dim] (torch:
// scaled_dot_product_attention). With fewer kv heads queries are grouped: query head h reads kv
// head h / (heads / kv heads). With `causal` a query sees keys up to its own global index.
//
// The kernel computes a row of scores, subtracts its maximum, exponentiates and sums it in the
// order of the keys, all in f32 (f64 for f64). A row's bits depend only on its query and on the
// keys and values that it sees. A call with a mask decomposes into matmul and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/ops/attention/attention_gradients.h"
#include "shardproof/ops/attention/attention_item.h"
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

Attention attention_of(const OpCall& call) {
  const Dims &q = input_shape(call, kQuery), &k = input_shape(call, kKey);
  Attention a;
  a.query_dim = q.size() - 2;
  for (int d = 0; d < q.size() - 3; ++d) a.batch *= q[d];
  a.heads = heads_of(q);
  a.kv_heads = heads_of(k);
  a.queries = q[q.size() - 2];
  a.keys = k[k.size() - 2];
  a.dim = q.back();
  a.value_dim = input_shape(call, kValue).back();
  a.causal = call.attrs->flag("causal");
  a.scale = call.attrs->has("scale")
                ? call.attrs->number("scale")
                : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(a.dim, 1)));
  return a;
}

std::vector<TensorMeta> infer_sdpa(const OpCall& call) {
  require_floating("sdpa", call, kQuery);
  DType dtype = same_dtype("sdpa", call, {kQuery, kKey, kValue});
  const Dims &q = input_shape(call, kQuery), &k = input_shape(call, kKey),
             &v = input_shape(call, kValue);
  if (q.size() < 2 || k.size() != q.size() || v.size() != q.size())
    refuse("sdpa", call, "q, k and v must be [..., heads, seq, head_dim] with equally many dims");
  int dims = q.size();
  for (int d = 0; d < dims - 3; ++d)
    if (q[d] != k[d] || q[d] != v[d])
      refuse("sdpa", call, "dim {} is a batch dim and must have one size in q, k and v", d);
  if (q.back() != k.back())
    refuse("sdpa", call, "the head_dims of q and k differ, {} and {}", q.back(), k.back());
  if (k[dims - 2] != v[dims - 2])
    refuse("sdpa", call, "the lengths of k and v differ, {} and {}", k[dims - 2], v[dims - 2]);
  int64_t heads = heads_of(q), kv = heads_of(k);
  if (kv != heads_of(v))
    refuse("sdpa", call, "k and v must have equally many heads, found {} and {}", kv, heads_of(v));
  if (heads != kv && (kv == 0 || heads % kv != 0))
    refuse("sdpa", call, "the {} query heads must be a multiple of the {} kv heads", heads, kv);
  Dims shape = q;
  shape[dims - 1] = v.back();
  return {{dtype, shape}};
}

// Sets the global index of each local query.
void place_queries(const Attention& a, const LaneCall& lane, int64_t* place) {
  if (!lane.shard) {
    for (int64_t s = 0; s < a.queries; ++s) place[s] = s;
    return;
  }
  for (const Run& run : lane.owned_input(kQuery, a.query_dim))
    for (int64_t i = 0; i < run.length; ++i) *place++ = run.start + i;
}

template <typename T>
void run_sdpa_lane(const Attention& a, const LaneCall& lane) {
  auto* place = reinterpret_cast<int64_t*>(lane.scratch);
  auto* scores = reinterpret_cast<T*>(place + a.queries);
  place_queries(a, lane, place);
  for (int64_t item = 0; item < a.items(); ++item)
    AttentionItem<T>{a}.attend(item, a.seen_from(place[item % a.queries]), scores, lane);
}

Kernel prepare_sdpa(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  DType compute = compute_dtype(outputs[0].dtype);
  Attention a = attention_of(call);
  LanePlan plan{std::vector<DType>(call.inputs.size(), compute), {compute}, 0, {}};
  plan.scratch_bytes = a.queries * int64_t{sizeof(int64_t)} + a.keys * size_of(compute);
  plan.body = [a, compute](const LaneCall& lane) {
    with_float(compute, [&](auto zero) { run_sdpa_lane<decltype(zero)>(a, lane); });
  };
  with_float(compute, [&](auto zero) {
    using Item = AttentionItem<decltype(zero)>;
    plan.item = Item{a};
    plan.items = a.items();
    plan.item_of_part = [a](const LaneCall& lane) mutable -> std::any {
      const std::optional<Run> own = single_run(lane.owned_input(kQuery, a.query_dim));
      if (!own) return {};
      a.first_query = own->start;
      return Item{a};
    };
  });
  return lane_kernel(plan, call, outputs);
}

// Query heads of one group must stay with their kv head. Equal counts are sharded alike. Fewer kv
// heads are sharded only in equal parts, which keep groups together; a single kv head stays whole.
void add_head_strategies(const Attention& a, int head_dim, int64_t axis_size,
                         std::vector<Strategy>& found) {
  Placement cut = S(head_dim);
  if (a.kv_heads == 1 && a.heads > 1) {
    found.push_back({{cut, R(), R()}, {cut}, LocalExecution::same_op, ShardLayout::any});
  } else if (a.kv_heads == a.heads) {
    found.push_back({{cut, cut, cut}, {cut}, LocalExecution::same_op, ShardLayout::any});
  } else if (a.kv_heads % axis_size == 0) {
    found.push_back({{cut, cut, cut}, {cut}, LocalExecution::same_op, ShardLayout::even});
  }
}

std::vector<Strategy> sdpa_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                      int64_t axis_size) {
  Attention a = attention_of(call);
  int dims = input_shape(call, kQuery).size();
  std::vector<Strategy> found;
  for (int d = 0; d < dims - 3; ++d)
    found.push_back({{S(d), S(d), S(d)}, {S(d)}, LocalExecution::same_op, ShardLayout::any});
  if (dims > 2) add_head_strategies(a, dims - 3, axis_size, found);
  Placement queries = S(dims - 2), values = S(dims - 1);
  found.push_back({{queries, R(), R()},
                   {queries},
                   a.causal ? LocalExecution::needs_shard_index : LocalExecution::same_op,
                   ShardLayout::any});
  found.push_back({{R(), R(), values}, {values}, LocalExecution::same_op, ShardLayout::any});
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg})  // the result is linear in v
    found.push_back({{R(), R(), P(op)}, {P(op)}, LocalExecution::same_op, ShardLayout::any});
  for (Strategy& s : found) s.inputs.resize(call.inputs.size(), R());  // an absent mask
  return found;
}

OpCost sdpa_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  Attention a = attention_of(call);
  auto pairs = static_cast<double>(a.batch * a.heads) * static_cast<double>(a.queries) *
               static_cast<double>(a.keys) * (a.causal ? 0.5 : 1.0);
  OpCost total{2 * pairs * static_cast<double>(a.dim + a.value_dim), 0};
  auto add = [&](const TensorMeta& meta) {
    total.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  };
  for (const TensorMeta& input : call.inputs)
    if (!input.absent) add(input);
  add(outputs[0]);
  return total;
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Decomposes a call with a mask: true or 0 lets a query see a key, false hides it, a number is
// added to the score. A query that sees no key gives zeros. NaN in a hidden key or value gives NaN,
// as in torch, where it is multiplied by a weight of 0.
std::vector<FormulaTerm> masked(Formula& f) {
  infer_sdpa(f.call);
  const Attention a = attention_of(f.call);
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
  FormulaTerm sees = chooses ? f[kMask] : f.op("ne", {f[kMask], kHidden});
  // Added, not chosen by `where`, so that NaN stays.
  scores = scores + (chooses ? f.where(f[kMask], 0.0, kHidden) : widened(kMask));
  if (a.causal) {
    const FormulaTerm past = f.op(
        "tril",
        {f.op("ones", {FormulaTerm{}},
              {{"shape", std::vector<int64_t>{a.queries, a.keys}}, {"dtype", DType::boolean}})});
    scores = f.where(past, scores, kHidden);
    sees = f.op("logical_and", {sees, past});
  }
  // A query that sees no key has weights 0, and NaN where a score is NaN.
  const FormulaTerm any = f.op("any", {sees}, {{"dim", IntegerList{-1}}, {"keepdim", true}});
  const FormulaTerm none = f.where(f.op("isnan", {scores}), scores, 0.0);
  const FormulaTerm shares = f.op("softmax", {f.where(any, scores, 0.0)}, {{"dim", int64_t{-1}}});
  const FormulaTerm out = f.op("matmul", {f.where(any, shares, none), grouped(widened(kValue))});
  return {dtype == wide ? out : f.to(dtype, out)};
}

}  // namespace

void add_attention_ops(OpRegistry& ops) {
  OpRecord sdpa;
  sdpa.name = "sdpa";
  sdpa.family = "attention";
  sdpa.summary =
      "softmax(q k^T scale) v over [..., heads, seq, head_dim]; grouped if there are fewer kv "
      "heads";
  sdpa.params = {params::tensor("query"),
                 params::tensor("key"),
                 params::tensor("value"),
                 params::boolean("causal", false),
                 params::optional("scale", ParamKind::number),
                 params::optional_tensor("mask")};
  sdpa.infer = infer_sdpa;
  sdpa.prepare = prepare_sdpa;
  sdpa.gradient =
      gradient_together([](Gradient& g) { return sdpa_gradient(g, attention_of(g.call)); });
  sdpa.rule.strategies = sdpa_strategies;
  sdpa.cost = sdpa_cost;
  sdpa.samples = [] {
    Attrs full{{"causal", false}}, causal{{"causal", true}};
    Sample hidden = sample_of({{{2, 4, 5, 2}, {2, 2, 3, 2}, {2, 2, 3, 2}, {5, 3}}}, full);
    Sample added = hidden;
    hidden.inputs[kMask].dtype = DType::boolean;
    hidden.fills = {"", "", "", "ones"};
    return std::vector<Sample>{
        hidden,
        added,
        sample_of({{{2, 4, 5, 4}, {2, 4, 5, 4}, {2, 4, 5, 4}}}, causal),
        sample_of({{{2, 8, 6, 4}, {2, 4, 6, 4}, {2, 4, 6, 4}}, DType::bf16}, causal),
        sample_of({{{1, 6, 3, 2}, {1, 2, 7, 2}, {1, 2, 7, 5}}, DType::f64}, full),
        sample_of({{{4, 4, 4}, {1, 4, 4}, {1, 4, 4}}}, full),
        sample_of({{{3, 2}, {4, 2}, {4, 3}}}, full)};
  };
  decompose_when(
      sdpa, [](const OpCall& call) { return present(call, kMask); }, masked);
  ops.add(std::move(sdpa));
}

}  // namespace shardproof
