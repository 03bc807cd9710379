// The part of a tensor that one rank holds, as runs of global indices by dim.
#pragma once

#include <algorithm>
#include <vector>

#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// Returns the runs of the rank at a coordinate of the spec's mesh, for each dim.
inline std::vector<Runs> owned_box(const Spec& spec, const Dims& coordinate) {
  std::vector<Runs> runs;
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    runs.push_back(spec.owned_at(coordinate, dim));
  return runs;
}

// Returns the indices in both boxes.
inline std::vector<Runs> common_box(const std::vector<Runs>& a, const std::vector<Runs>& b) {
  std::vector<Runs> runs;
  for (size_t d = 0; d < a.size(); ++d) runs.push_back(common_runs(a[d], b[d]));
  return runs;
}

// Returns the number of indices in both lists, which ascend.
inline int64_t common_length(const Runs& a, const Runs& b) {
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t start = std::max(a[i].start, b[j].start);
    const int64_t end_a = a[i].start + a[i].length, end_b = b[j].start + b[j].length;
    total += std::max<int64_t>(0, std::min(end_a, end_b) - start);
    end_a < end_b ? ++i : ++j;
  }
  return total;
}

inline Dims shape_of_box(const std::vector<Runs>& runs) {
  Dims shape;
  for (const Runs& of_dim : runs) shape.push_back(length(of_dim));
  return shape;
}

}  // namespace shardproof
