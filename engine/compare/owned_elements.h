// Iteration over the elements of a rank's shard with their global indices.
#pragma once

#include <vector>

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// Returns, for each dim, the global index of each local position.
inline std::vector<std::vector<int64_t>> local_indices(const Spec& spec, int64_t rank) {
  std::vector<std::vector<int64_t>> result;
  for (int d = 0; d < spec.shape().size(); ++d) {
    std::vector<int64_t>& indices = result.emplace_back();
    for (const Run& run : spec.owned(rank, d))
      for (int64_t i = 0; i < run.length; ++i) indices.push_back(run.start + i);
  }
  return result;
}

// Calls visit(local, global) with the row-major indices of every element of a rank's shard.
template <typename Visit>
void for_each_element(const std::vector<std::vector<int64_t>>& indices, const Dims& global_strides,
                      Visit visit) {
  const size_t dims = indices.size();
  for (const std::vector<int64_t>& list : indices)
    if (list.empty()) return;
  if (dims == 0) return visit(int64_t{0}, int64_t{0});
  std::vector<size_t> at(dims, 0);
  int64_t local = 0;
  const std::vector<int64_t>& inner = indices[dims - 1];
  while (true) {
    int64_t base = 0;
    for (size_t d = 0; d + 1 < dims; ++d)
      base += indices[d][at[d]] * global_strides[static_cast<int>(d)];
    for (int64_t index : inner) visit(local++, base + index);
    size_t d = dims - 1;
    while (d-- > 0) {
      if (++at[d] < indices[d].size()) break;
      at[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

// Returns the coordinate of a rank's shard, with 0 on axes that do not cut.
inline Dims place_of_shard(const Spec& spec, int64_t rank) {
  Dims place = *spec.mesh().coordinate_of(rank);
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (!spec.placement(axis).is_shard()) place[axis] = 0;
  return place;
}

}  // namespace shardproof
