// Runs an op on the shards of its inputs, with one kernel call for each group of ranks that agree
// on shapes and attributes: what the engine's executor does, without streams or backends. Also
// makes inputs from the samples of op records.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"

namespace shardproof::testing {

// A sample with its tensors. Attributes that were left out have their fallbacks.
struct OpInstance {
  const OpRecord* record = nullptr;
  Attrs attrs;
  std::vector<TensorMeta> inputs;
  std::vector<Tensor> tensors;  // an absent input is a Tensor without a buffer

  OpCall call() const { return {&attrs, inputs}; }
  std::vector<const Tensor*> pointers() const;
};
Attrs with_fallbacks(const OpRecord& record, Attrs attrs);
OpInstance instance_of(const OpRecord& record, const Sample& sample, uint64_t seed);
// Returns the instance with all floats in f64 and all complex numbers in c128
// (ops/core/widen_op_call.h); nullopt if the dtypes of the results would not change.
std::optional<OpInstance> in_f64(const OpInstance& instance);
// Returns a tensor of "ints", "ints(0, 5)", "uniform(0.1, 1)", "normal(0, 1)", "bools", "ones",
// "zeros" or "iota".
Tensor filled_by(const std::string& fill, DType dtype, const Dims& shape, uint64_t seed);

struct LocalCall {
  const OpRecord* record = nullptr;
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> metas;           // global metas of the inputs; weak and absent are used
  std::vector<const LocalTensor*> inputs;  // null: absent
  std::vector<Spec> input_specs, output_specs;
  bool rank_attrs = false;  // form `attrs`: Rule::local_attrs gives the attributes
  bool shard_info = false;  // form `shard`
};
std::vector<LocalTensor> run_local(const LocalCall& call);

}  // namespace shardproof::testing
