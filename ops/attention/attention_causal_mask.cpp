// Registers causal_mask(query, key, value): true where a query of a causal sdpa attends to a key,
// [queries, keys]. It reads the global positions of its inputs, not their elements, so that second
// gradients inside `as` count positions as sdpa does. `value` may be left out.
#include "shardproof/ops/attention/attention.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/shard_index.h"

namespace shardproof {
namespace {

constexpr const char* kMaskOp = "causal_mask";
constexpr int kMaskQuery = 0, kMaskKey = 1, kMaskValue = 2;

int sequence_dim(const Dims& shape) { return shape.size() - 2; }

std::vector<TensorMeta> infer_causal_mask(const OpCall& call) {
  for (const int i : {kMaskQuery, kMaskKey})
    if (input_shape(call, i).size() < 2) refuse(kMaskOp, call, "needs [..., seq, head_dim]");
  const Dims &query = input_shape(call, kMaskQuery), &key = input_shape(call, kMaskKey);
  return {{DType::boolean, Dims{query[sequence_dim(query)], key[sequence_dim(key)]}}};
}

Kernel prepare_causal_mask() {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [](const KernelCall& run) {
    const Dims &query = (*run.inputs)[kMaskQuery].shape, &key = (*run.inputs)[kMaskKey].shape;
    for (int64_t lane = 0; lane < run.lanes; ++lane) {
      auto* seen = reinterpret_cast<uint8_t*>((*run.outputs)[0].at(lane));
      const std::vector<int64_t> keys =
          global_indices(place_of_input(run, kMaskKey, lane), key, sequence_dim(key));
      for (const int64_t q :
           global_indices(place_of_input(run, kMaskQuery, lane), query, sequence_dim(query)))
        for (const int64_t k : keys) *seen++ = k <= q ? 1 : 0;
    }
  };
  return kernel;
}

// The mask is cut with the queries or the keys. Cuts of other dims and parts of sums leave it
// whole.
std::vector<Strategy> causal_mask_strategies(const OpCall& call) {
  const Dims &query = input_shape(call, kMaskQuery), &key = input_shape(call, kMaskKey);
  const auto placements = [](const Dims& shape) {
    std::vector<Placement> all{R()};
    for (int dim = 0; dim < shape.size(); ++dim) all.push_back(S(dim));
    return all;
  };
  std::vector<Strategy> found;
  for (const Placement& by_query : placements(query))
    for (const Placement& by_key : placements(key)) {
      const bool cuts_queries = by_query.is_shard(sequence_dim(query));
      const bool cuts_keys = by_key.is_shard(sequence_dim(key));
      if (cuts_queries && cuts_keys) continue;
      Strategy one{
          {by_query, by_key},
          {cuts_queries ? S(0)
           : cuts_keys  ? S(1)
                        : R()},
          cuts_queries || cuts_keys ? LocalExecution::needs_shard_index : LocalExecution::same_op};
      one.inputs.resize(call.inputs.size(), R());
      found.push_back(std::move(one));
    }
  return found;
}

}  // namespace

OpRecord causal_mask_record() {
  OpRecord op;
  op.name = kMaskOp;
  op.family = "attention";
  op.summary = "true where a query of a causal sdpa attends to a key, [queries, keys]";
  op.params = {params::tensor("query"), params::tensor("key"), params::optional_tensor("value")};
  op.infer = infer_causal_mask;
  op.prepare = [](const OpCall&, const std::vector<TensorMeta>&) { return prepare_causal_mask(); };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return causal_mask_strategies(call);
  };
  op.samples = [] {
    const auto sample = [](const Dims& query, const Dims& key) {
      Sample made = sample_of({{query, key}}, {});
      made.inputs.push_back(absent_input());
      return made;
    };
    return std::vector<Sample>{sample({2, 5, 3}, {2, 4, 3}), sample({3, 4}, {6, 4})};
  };
  return without_gradient(std::move(op));
}

}  // namespace shardproof
