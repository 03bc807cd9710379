// Runs an op on the shards of its inputs as the executor does, without streams or backends. Ranks
// that agree on shapes and attributes share one kernel call.
#pragma once

#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

struct LocalCall {
  const OpRecord* record = nullptr;
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> metas;           // global metas of the inputs; weak and absent are used
  std::vector<const LocalTensor*> inputs;  // null: absent
  std::vector<Spec> input_specs, output_specs;
  bool rank_attrs = false;  // form `local_attrs`: Rule::local_attrs gives them
  bool shard_info = false;  // form `needs_shard_index`
};
std::vector<LocalTensor> run_local(const LocalCall& call);

}  // namespace shardproof
