// Ops whose kernels read the indices of their shards, inside `as`.
#pragma once

#include <string_view>
#include <vector>

namespace shardproof {

// Returns the inputs whose placements give the indices that the op's kernel reads
// (LocalExecution::needs_shard_index), if others need no placement: inside `as` these are placed as
// the strategies have them beside the returned ones. Empty: all inputs must have placements, or the
// op counts from 0.
std::vector<int> indexed_inputs(std::string_view op);

}  // namespace shardproof
