// Mesh: named axes over ranks, as an algebra over (sizes, strides) in the manner of CuTe layouts.
//
// The rank at coordinate c is map[offset + sum(c[i] * stride[i])], where `map` is the root's rank
// list (absent when the ranks are consecutive). Slicing keeps some axes: it stands for *all*
// sibling sub-meshes at once until `containing(rank)` picks one; `ranks`, `rank_at` then speak of
// the first sibling, `coordinate_of` of any. A mesh is a value; copies are cheap; nothing holds
// O(world) unless the author wrote a rank list.
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

struct MeshMode {  // `size` positions of the root mesh, `stride` apart
  int64_t size = 1, stride = 1;
  bool operator==(const MeshMode&) const = default;
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  int64_t stride = 1;  // 0 when one stride cannot say it
  std::vector<MeshMode>
      modes;  // slowest first; more than one after flattening axes that are no neighbours
  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh();  // no axes: one rank, 0
  // Row-major axes over ranks 0..n-1, or over `ranks` in that order (any order; no rank twice).
  // Throws Error: sizes < 1, names repeated or empty, list length not the product.
  static Mesh make(std::vector<std::pair<std::string, int64_t>> axes,
                   std::vector<int32_t> ranks = {});
  // "dp=2, tp=4", "2x4" (axes named dim0, dim1), "tp=4 on 2-5", "tp=3 on 0 4 2".
  static Mesh parse(std::string_view text);

  const std::vector<MeshAxis>& axes() const;
  int axis_count() const { return static_cast<int>(axes().size()); }
  int64_t axis_size(int axis) const { return axes()[static_cast<size_t>(axis)].size; }
  int64_t size() const;                   // ranks of one (sub-)mesh
  int axis(std::string_view name) const;  // index; Error with the nearest name when absent
  std::optional<int> find_axis(std::string_view name) const;
  Dims shape() const;   // axis sizes
  Lanes ranks() const;  // ascending; of a slice: of this sibling only
  int32_t rank_at(const Dims& coordinate) const;
  std::optional<Dims> coordinate_of(int64_t rank) const;  // nullopt when absent
  int64_t root_size() const;                              // ranks of the root mesh

  // Positions in the root mesh: what groups are computed from.
  int64_t offset() const;  // position of coordinate 0
  bool is_sliced() const;  // stands for several siblings
  bool is_mapped() const;  // has a rank list
  int32_t rank_of_position(int64_t position) const;
  std::optional<int64_t> position_of(int64_t rank) const;  // in the root mesh

  // The algebra. Errors name the axes; rules follow torch's DeviceMesh where it has one.
  Mesh slice(const std::vector<std::string>& names) const;  // names in mesh order, else Error
  // The axes become one, in the place of the first; other axes stay.
  Mesh flatten(const std::vector<std::string>& names, std::string name) const;
  Mesh unflatten(std::string_view axis,
                 const std::vector<std::pair<std::string, int64_t>>& into) const;
  static Mesh concatenate(const std::vector<Mesh>& parts);  // same root, no overlap
  Mesh containing(int64_t rank) const;                      // the sibling that holds a rank

  bool operator==(const Mesh& other) const;

 private:
  struct Data;
  explicit Mesh(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

std::string to_string(const Mesh& mesh);  // parses back: "dp=2, tp=4 on 0 4 2 6 ..."

}  // namespace shardproof
