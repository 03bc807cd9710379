// Mesh: named axes over ranks, as an algebra over (sizes, strides) in the manner of CuTe layouts.
//
// Position of coordinate c: offset + sum(c[i] * stride[i]). The rank is the position, or the entry
// at that position of a rank list that the author wrote. Example: "dp=2, tp=4" has the strides 4
// and 1; coordinate (1, 2) is position 6, rank 6. "tp=3 on 0 4 2": coordinate (1) is rank 4.
//
// A slice keeps some axes and stands for *all* sibling sub-meshes at once: slice({"tp"}) stands for
// ranks 0-3 and ranks 4-7. `containing(rank)` picks one sibling. Before that, `ranks` and `rank_at`
// return those of the first sibling, and `coordinate_of` accepts a rank of any.
//
// A mesh is an immutable value; copies share its data. Nothing takes O(world) memory unless the
// author wrote a rank list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/base/lanes.h"

namespace shardproof {

// One digit of the positions of the root mesh: `size` positions, `stride` apart.
struct MeshMode {
  int64_t size = 1, stride = 1;
  bool operator==(const MeshMode&) const = default;
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  int64_t stride = 1;  // 0 if the axis has more than one mode
  // Slowest first. An axis flattened from axes that are not neighbours has more than one.
  std::vector<MeshMode> modes;
  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh();  // no axes: only rank 0
  // Returns row-major axes over ranks 0..n-1, or over `ranks` in the order given. Throws
  // Error(bad_input) for a size below 1, and for a repeated or empty name. Throws it also for a
  // repeated or negative rank, and a list whose length is not the product of the sizes. Throws
  // Error(limit) for more than 2^31 - 1 ranks.
  static Mesh make(std::vector<std::pair<std::string, int64_t>> axes,
                   std::vector<int32_t> ranks = {});
  // Returns the mesh of a text: "dp=2, tp=4", "2x4" (axes named dim0, dim1), "tp=4 on 2-5", "tp=3
  // on 0 4 2". Throws Error(bad_input) with the column.
  static Mesh parse(std::string_view text);

  const std::vector<MeshAxis>& axes() const;
  int axis_count() const { return static_cast<int>(axes().size()); }
  int64_t axis_size(int axis) const { return axes()[static_cast<size_t>(axis)].size; }
  int64_t size() const;  // number of ranks of one (sub-)mesh
  // Returns the index of an axis. Throws Error(bad_input) with the nearest name if there is none.
  int axis(std::string_view name) const;
  std::optional<int> find_axis(std::string_view name) const;
  Dims shape() const;   // axis sizes
  Lanes ranks() const;  // a slice: the ranks of its first sibling
  int32_t rank_at(const Dims& coordinate) const;
  std::optional<Dims> coordinate_of(int64_t rank) const;  // nullopt if the rank is not on the mesh
  int64_t root_size() const;                              // number of ranks of the root mesh

  // Positions in the root mesh, from which groups are computed.
  int64_t offset() const;  // position of coordinate 0
  bool is_sliced() const;  // true if the mesh stands for several siblings
  bool is_mapped() const;  // true if the root mesh has a rank list
  int32_t rank_of_position(int64_t position) const;
  std::optional<int64_t> position_of(int64_t rank) const;  // nullopt if not on the root mesh

  // The algebra, with the rules of torch's DeviceMesh. All throw Error(bad_input) naming the axes.
  // Returns the named axes only, standing for all siblings. Requires names in mesh order.
  Mesh slice(const std::vector<std::string>& names) const;
  // Returns a mesh in which one axis replaces the named ones, at the place of the first. Requires
  // names in mesh order, and a new name that is not an axis of the root mesh.
  Mesh flatten(const std::vector<std::string>& names, std::string name) const;
  // Returns a mesh in which the axes `into` replace one axis, slowest first. Requires that the
  // product of their sizes is its size, and that no new axis crosses the border of two modes.
  Mesh unflatten(std::string_view axis,
                 const std::vector<std::pair<std::string, int64_t>>& into) const;
  // Returns the axes of all parts, in order. Requires the same root and no overlap of axes.
  static Mesh concatenate(const std::vector<Mesh>& parts);
  // Returns the sibling that holds a rank. Requires a rank on the mesh.
  Mesh containing(int64_t rank) const;

  bool operator==(const Mesh& other) const;  // same axes on the same ranks of an equal root

 private:
  struct Data;
  explicit Mesh(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

// Returns text that Mesh::parse reads: "dp=2, tp=4", "tp=3 on 0 4 2".
std::string to_string(const Mesh& mesh);

}  // namespace shardproof
