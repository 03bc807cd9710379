// MeshData: the data that copies of a Mesh share, and the arithmetic of one axis.
//
// A position of the root mesh is a number in mixed radix. Each mode of an axis is one digit of it:
// (position / stride) % size. Example: on "a=2, b=3, c=4" (strides 12, 4, 1) the axis flattened
// from a and c has the modes 2:12 and 4:1. Position 18 = 1*12 + 1*4 + 2 has the digits 1 and 2
// there. Its index on that axis is 1 * 4 + 2 = 6.
#pragma once

#include <memory>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"

namespace shardproof {

// A rank list that the author wrote: `ranks` by position; `by_rank` lists positions in ascending
// order of rank, for binary search.
struct RankMap {
  std::vector<int32_t> ranks, by_rank;
};

struct MeshData {
  std::vector<MeshAxis> axes;
  int64_t offset = 0;
  int64_t root_size = 1;
  int64_t first = 0;    // rank of position 0 if there is no map
  bool sliced = false;  // true if axes of the root are missing and no sibling has been selected
  std::shared_ptr<const RankMap> map;
  std::vector<MeshAxis> root_axes;  // for errors: a flattened axis may not take their names
};

struct Mesh::Data : MeshData {};

// Returns the index on an axis of the rank at a position.
inline int64_t coordinate_on_axis(const MeshAxis& axis, int64_t position) {
  int64_t index = 0;
  for (const MeshMode& mode : axis.modes)
    index = index * mode.size + (position / mode.stride) % mode.size;
  return index;
}

// Returns the part of a position that an index on an axis gives; the inverse of coordinate_on_axis.
inline int64_t position_on_axis(const MeshAxis& axis, int64_t index) {
  int64_t position = 0;
  for (size_t i = axis.modes.size(); i-- > 0;) {
    position += index % axis.modes[i].size * axis.modes[i].stride;
    index /= axis.modes[i].size;
  }
  return position;
}

// Throws Error(bad_input) for an empty or repeated name.
void check_axis_names(const std::vector<MeshAxis>& axes);

}  // namespace shardproof
