// Runs a computation on the shards of a draw's inputs (run_on_shards): what each rank computes.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/check_ops/draws.h"
#include "shardproof/engine/check_ops/shard_cache.h"
#include "shardproof/engine/check_ops/slices.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// Returns the parts of input `input` under its placements, in the memory of an earlier one.
PlacedInput place_input(const RuleDraw& draw, size_t input, const Slices& slices,
                        PlacedInput memory = {});
// Copies one rank's local contents, dense, to `target`.
void copy_local(const PlacedInput& placed, const Slices& slices, int rank, std::byte* target);
// Returns the input as a value on the ranks 0..n-1.
LocalTensor local_tensor_of(const PlacedInput& placed, const Slices& slices);

struct ShardResults {
  std::string trouble;  // a rank cannot compute; then the rest is empty
  std::vector<RankResults> outputs;
  std::vector<std::vector<Dims>> shapes;  // by output and rank
  std::vector<std::vector<std::byte>> storage;
  std::vector<Tensor> tensors;

  // Returns the largest finite absolute value that a rank holds of an output; 0 for integers.
  double largest(size_t output) const;
};
// Runs `by_rank` (one computation for all ranks, or one each) on the shards. Ranks of equal local
// shapes and computation run in one kernel call. One computation for all must outlive the cache;
// `inputs` are slices of the cache.
ShardResults run_on_shards(const RuleDraw& draw, const std::vector<const Computation*>& by_rank,
                           const std::vector<const Slices*>& inputs, ShardCache& cache);
// Returns values that ranks 0..n-1 hold as results.
ShardResults results_of(const std::vector<LocalTensor>& values, int ranks);

// Judges one output: differs if a local shape is not that of the placement.
Agreement judge_output(const RuleDraw& draw, size_t output, const Slices& placed,
                       const ShardResults& results, double largest_part, Disagreement* first);

}  // namespace shardproof
