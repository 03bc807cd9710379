// What a Mesh holds, shared by its copies, and the arithmetic of one axis.
#pragma once

#include <memory>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"

namespace shardproof {

// An author's rank list: `ranks` by position, `by_rank` the positions in ascending order of rank.
struct RankMap {
  std::vector<int32_t> ranks, by_rank;
};

struct MeshData {
  std::vector<MeshAxis> axes;
  int64_t offset = 0;
  int64_t root_size = 1;
  int64_t first = 0;    // rank of position 0 where there is no map
  bool sliced = false;  // axes of the root are missing and no sibling is picked
  std::shared_ptr<const RankMap> map;
  std::vector<MeshAxis> root_axes;  // for errors: a flattened axis may not take their names
};

struct Mesh::Data : MeshData {};

// Every axis comes from splitting the root's row-major positions, so a mode is a digit of them.
inline int64_t coordinate_on_axis(const MeshAxis& axis, int64_t position) {
  int64_t index = 0;
  for (const MeshMode& mode : axis.modes)
    index = index * mode.size + (position / mode.stride) % mode.size;
  return index;
}

inline int64_t position_on_axis(const MeshAxis& axis, int64_t index) {
  int64_t position = 0;
  for (size_t i = axis.modes.size(); i-- > 0;) {
    position += index % axis.modes[i].size * axis.modes[i].stride;
    index /= axis.modes[i].size;
  }
  return position;
}

void check_axis_names(const std::vector<MeshAxis>& axes);

}  // namespace shardproof
