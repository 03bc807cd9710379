// Where a rank's local elements lie in the global tensor: what kernels of form `shard` ask. These
// look-ups allocate a few short lists per lane, the one exception to "kernels allocate nothing".
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Spec and rank of one kernel lane's tensor; no spec when the local tensor is the whole.
struct GlobalPlace {
  const Spec* spec = nullptr;
  int64_t rank = 0;
};
GlobalPlace place_of_input(const KernelCall& call, size_t input, int64_t lane);
GlobalPlace place_of_output(const KernelCall& call, size_t output, int64_t lane);

// Global index of each local index of a dim.
std::vector<int64_t> global_indices(const GlobalPlace& place, const Dims& local, int dim);
const Dims& global_shape(const GlobalPlace& place, const Dims& local);

// Calls f(local, global, count) for stretches of elements that follow each other in both the local
// and the global tensor, by row-major element numbers; covers the local block in order.
void for_each_stretch(const GlobalPlace& place, const Dims& local,
                      const std::function<void(int64_t, int64_t, int64_t)>& f);

}  // namespace shardproof
