// Parts shared by ops that create a tensor from a shape or from another's (`like=`): zeros, full,
// uniform.
#pragma once

#include <string_view>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns the parameters shape, dtype, like.
std::vector<Param> creation_params();
// Infers the output. Input 0 is `like`, absent if the call gives a shape. `fallback` is the dtype
// of a call that gives neither dtype nor like. Throws Error(bad_input) unless exactly one of shape
// and like is given.
std::vector<TensorMeta> infer_creation(std::string_view name, const OpCall& call, DType fallback);
// Returns a strategy for each dim of the output. Without `like` `same_op` becomes `local_attrs`.
std::vector<Strategy> creation_strategies(const OpCall& call, const TensorMeta& output,
                                          LocalExecution form);
// Returns the call's attributes with the local shape of `rank`.
Attrs creation_local_attrs(const OpCall& call, const std::vector<Spec>& inputs,
                           const std::vector<Spec>& outputs, int64_t rank);

}  // namespace shardproof
