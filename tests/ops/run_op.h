// Runs an op on the shards of its inputs, one kernel call for each group of ranks that agree on
// shapes and attributes: what an executor does, without streams or doors. And inputs from the
// samples of op records.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"

namespace shardproof::testing {

// A sample made concrete. Attributes that were not given have their fallbacks.
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
// The same with all floats in f64 and all complex numbers in c128 (ops/core/widen_op_call.h);
// nothing where results would be of the same dtypes.
std::optional<OpInstance> in_f64(const OpInstance& instance);
// "ints", "ints(0, 5)", "uniform(0.1, 1)", "bools", "ones", "zeros", "iota".
Tensor filled_by(const std::string& fill, DType dtype, const Dims& shape, uint64_t seed);

struct LocalCall {
  const OpRecord* record = nullptr;
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> metas;           // of the inputs, global; weak and absent are read
  std::vector<const LocalTensor*> inputs;  // null: absent
  std::vector<Spec> input_specs, output_specs;
  bool rank_attrs = false;  // form attrs: Rule::local_attrs
  bool shard_info = false;  // form shard
};
std::vector<LocalTensor> run_local(const LocalCall& call);

}  // namespace shardproof::testing
