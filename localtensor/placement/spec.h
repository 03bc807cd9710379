// Spec: a tensor's global shape and dtype, its mesh, one placement per axis, and the order in which
// axes cut: exactly what each rank holds. Lazy: nothing holds O(world).
//
// Cutting: axes are applied in `order`. Each S axis cuts what the axes before it have left of its
// dim, in the local order they left it in (a strided cut concatenates its parts, so that order is
// ascending). A rank's part of a dim is an ordered list of runs of global indices; its part of the
// tensor is the product over dims. A P axis leaves the whole shape to each rank. Canonical form:
// `order` is the smallest (lexicographically) that cuts the same, so that equal cutting compares
// equal.
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
using Runs = std::vector<Run>;  // in local order; adjacent runs joined; no empty runs
int64_t length(const Runs& runs);

class Spec {
 public:
  Spec() = default;
  // Dims may count from the end. Throws Error(bad_input): wrong number of placements, dim out of
  // range, sizes that do not add up (at some coordinate), two different partial operators (sum with
  // avg is allowed), a reduction the dtype cannot do.
  Spec(Mesh mesh, std::vector<Placement> placements, Dims shape, DType dtype,
       std::vector<int> order = {});
  static Spec replicated(Mesh mesh, Dims shape, DType dtype);
  // Text of the scenario language; axes not named are R (or those of `base` when given).
  static Spec parse(std::string_view placements, const Mesh& mesh, const Dims& shape, DType dtype,
                    const Spec* base = nullptr);

  const Mesh& mesh() const { return mesh_; }
  const Dims& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const std::vector<Placement>& placements() const { return placements_; }
  const Placement& placement(int axis) const { return placements_[static_cast<size_t>(axis)]; }
  const std::vector<int>& order() const { return order_; }
  std::vector<int> axes_of_dim(int dim) const;  // axes that cut a dim, in order of application
  std::vector<int> partial_axes() const;
  bool has_partial() const;
  bool is_replicated() const;

  // Of one rank (must be on the mesh), or of a coordinate of the mesh.
  Dims local_shape(int64_t rank) const;
  Dims local_shape_at(const Dims& coordinate) const;
  Runs owned(int64_t rank, int dim) const;  // global indices of a dim, in local order
  Runs owned_at(const Dims& coordinate, int dim) const;
  Dims start(int64_t rank) const;  // first global index per dim; the global size when empty
  int64_t max_local_elements() const;

  // Same cutting with another shape of equal rank, dtype, or placements.
  Spec with_placement(int axis, Placement placement) const;  // an S is applied last
  Spec with_dtype(DType dtype) const;
  Spec with_shape(Dims shape) const;

  bool operator==(const Spec& other) const;
  // True when every rank owns the same indices in the same local order and partials agree: no data
  // moves.
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

std::string placements_text(
    const Spec& spec);                    // "dp:S(0) tp:P(sum)", "R" when all are R; parses back
std::string to_string(const Spec& spec);  // "bf16[16, 64] dp:S(0) tp:P(sum) on dp=2, tp=4"

// Checks that a reduction is legal on a dtype: band/bor/bxor need integers or bool;
// sum/avg/prod/premul_sum/ norm not bool; min/max not complex; avg of integers truncates toward
// zero (as NCCL does).
void check_reduction(const Reduction& reduction, DType dtype);

}  // namespace shardproof
