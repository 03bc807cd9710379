// What ops share that make a tensor from a shape or from another's (`like=`): zeros, full, uniform.
#pragma once

#include <string_view>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

std::vector<Param> creation_params();  // shape, dtype, like
// Input 0 is `like`, absent when a shape is given.
std::vector<TensorMeta> infer_creation(std::string_view name, const OpCall& call, DType fallback);
std::vector<Strategy> creation_strategies(const OpCall& call, const TensorMeta& output,
                                          LocalExecution form);
Attrs creation_local_attrs(const OpCall& call, const std::vector<Spec>& outputs, int64_t rank);

}  // namespace shardproof
