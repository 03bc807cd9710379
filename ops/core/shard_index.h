// Positions of a rank's local elements in the global tensor, for form `needs_shard_index`. These
// look-ups allocate a few short lists per lane: the one exception to "kernels allocate nothing".
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Spec and rank of one kernel lane's tensor. No spec: the local tensor is the whole tensor.
struct GlobalPlace {
  const Spec* spec = nullptr;
  int64_t rank = 0;
};
// Return the place of a lane's input (output); without ShardInfo it has no spec.
GlobalPlace place_of_input(const KernelCall& call, size_t input, int64_t lane);
GlobalPlace place_of_output(const KernelCall& call, size_t output, int64_t lane);

// Returns the global index of each local index of a dim.
std::vector<int64_t> global_indices(const GlobalPlace& place, const Dims& local, int dim);
// Returns the global shape: the spec's, or `local` if there is no spec.
const Dims& global_shape(const GlobalPlace& place, const Dims& local);

// Calls f(local, global, count) for each stretch of elements that is contiguous in both the local
// and the global tensor. Positions are row-major element numbers. The stretches cover the local
// block in order.
void for_each_stretch(const GlobalPlace& place, const Dims& local,
                      const std::function<void(int64_t, int64_t, int64_t)>& f);

}  // namespace shardproof
