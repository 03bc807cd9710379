// The part of a tensor that one rank holds, as runs of global indices by dim.
#pragma once

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

inline Dims shape_of_box(const std::vector<Runs>& runs) {
  Dims shape;
  for (const Runs& of_dim : runs) shape.push_back(length(of_dim));
  return shape;
}

}  // namespace shardproof
