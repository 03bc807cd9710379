// Spec: a tensor's global shape and dtype, its mesh, one placement for each axis, and the order in
// which axes cut. It determines which elements each rank holds (PyTorch: DTensorSpec). Everything
// is computed on demand; nothing takes O(world) memory.
//
// Cutting: axes are applied in `order`. Each S axis cuts the indices of its dim that the axes
// before it have left, in their local order. A strided cut concatenates its parts, so local order
// is always ascending. A rank's part of a dim is a list of runs of global indices; its part of the
// tensor is the product over dims. A P axis leaves the whole shape to each rank.
//
// Example: dim of 8, axes dp=2 and tp=2, both S(0). In mesh order dp cuts first: rank (dp 0, tp 1)
// has the indices 2 3. With "dp:S(0, after=tp)" tp cuts first: the same rank has 4 5.
//
// Canonical form: `order` is the lexicographically smallest one with the same cuts, so that specs
// with equal cuts compare equal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

struct Run {  // global indices [start, start + length) of a dim
  int64_t start = 0, length = 0;
  bool operator==(const Run&) const = default;
};
using Runs = std::vector<Run>;     // in local order; adjacent runs joined; no empty runs
int64_t length(const Runs& runs);  // number of indices

class Spec {
 public:
  Spec() = default;
  // Dims of placements may count from the end; an empty `order` is mesh order. Throws
  // Error(bad_input) for a wrong number of placements, a dim out of range, and sizes that do not
  // add up at some coordinate. Throws it also for two different partial reductions (sum with avg is
  // allowed), and a reduction that the dtype does not support.
  Spec(Mesh mesh, std::vector<Placement> placements, Dims shape, DType dtype,
       std::vector<int> order = {});
  static Spec replicated(Mesh mesh, Dims shape, DType dtype);  // R on every axis
  // Returns the spec of a text of the scenario language. Axes that it does not name are R, or
  // placed as in `base` if it is given. Throws Error(bad_input) with the column.
  static Spec parse(std::string_view placements, const Mesh& mesh, const Dims& shape, DType dtype,
                    const Spec* base = nullptr);

  const Mesh& mesh() const { return mesh_; }
  const Dims& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const std::vector<Placement>& placements() const { return placements_; }
  const Placement& placement(int axis) const { return placements_[static_cast<size_t>(axis)]; }
  const std::vector<int>& order() const { return order_; }
  std::vector<int> axes_of_dim(int dim) const;  // axes that cut a dim, in order of application
  std::vector<int> partial_axes() const;        // in mesh order
  std::vector<int> shard_axes() const;          // those of more than one rank, in mesh order
  bool has_partial() const;
  bool is_replicated() const;  // true if every axis is R

  // The part of one rank, given by its number (requires a rank on the mesh) or its coordinate.
  Dims local_shape(int64_t rank) const;
  Dims local_shape_at(const Dims& coordinate) const;
  Runs owned(int64_t rank, int dim) const;  // global indices of a dim, in local order
  Runs owned_at(const Dims& coordinate, int dim) const;
  // First global index of each dim; the dim's size if the rank has no index of it.
  Dims start(int64_t rank) const;
  int64_t max_local_elements() const;  // elements of the rank with the largest part

  // Returns a copy with one change. with_placement applies a new S after all other cuts.
  Spec with_placement(int axis, Placement placement) const;
  Spec with_dtype(DType dtype) const;

  bool operator==(const Spec& other) const;  // same mesh, shape, dtype, placements and order
  // True if every rank owns the same indices in the same local order and the partials agree: a
  // redistribution moves no data.
  bool same_ownership(const Spec& other) const;

 private:
  int64_t length_at(const Dims& coordinate, int dim) const;
  void check_placements();
  void check_sizes() const;
  void make_order_canonical();

  Mesh mesh_;
  std::vector<Placement> placements_;
  Dims shape_;
  DType dtype_ = DType::f32;
  std::vector<int> order_;
};

// Returns text that Spec::parse reads: "dp:S(0) tp:P(sum)"; "R" if all axes are R.
std::string placements_text(const Spec& spec);
std::string to_string(const Spec& spec);  // "bf16[16, 64] dp:S(0) tp:P(sum) on dp=2, tp=4"

// Throws Error(bad_input) if a reduction is not legal on a dtype:
//   band, bor, bxor             integers and bool
//   min, max                    all but complex
//   norm                        floats
//   sum, avg, prod, premul_sum  all but bool
void check_reduction(const Reduction& reduction, DType dtype);

}  // namespace shardproof
