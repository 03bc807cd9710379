// Implements shard_cut.h and the ownership functions of spec.h: the indices that a rank owns.
//
// owned_at keeps a list of runs of global indices and applies one cut after another to it. Example:
// dim of 8, cut by S(0, split=2) over 2 ranks, then by S(0) over 2 ranks. Rank (0, 1): [0, 8) ->
// [0, 2) [4, 6) -> positions 2 and 3 of these four indices: [4, 6).
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/shard_cut.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

namespace {

// Appends positions [start, start + length) of `whole` to `out`.
void take_positions(const Runs& whole, int64_t start, int64_t length, Runs& out) {
  for (const Run& run : whole) {
    if (length == 0) return;
    if (start >= run.length) {
      start -= run.length;
      continue;
    }
    const int64_t taken = std::min(length, run.length - start);
    const int64_t at = run.start + start;
    if (!out.empty() && out.back().start + out.back().length == at)
      out.back().length += taken;
    else
      out.push_back({at, taken});
    length -= taken;
    start = 0;
  }
}

// Returns the coordinate of a rank, which must be on the mesh.
Dims coordinate_on(const Mesh& mesh, int64_t rank) {
  const auto coordinate = mesh.coordinate_of(rank);
  SP_CHECK(coordinate.has_value(), "rank {} is not on the mesh \"{}\"", rank, to_string(mesh));
  return *coordinate;
}

// Compares the runs at every coordinate of the axes that cut the dim.
bool same_runs_everywhere(const Spec& a, const Spec& b, int dim) {
  std::vector<int> axes = a.axes_of_dim(dim);
  for (int axis : b.axes_of_dim(dim))
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  Dims sizes;
  for (int axis : axes) sizes.push_back(a.mesh().axis_size(axis));
  const int64_t count = element_count(sizes);
  Dims coordinate = Dims::filled(a.mesh().axis_count(), 0);
  for (int64_t i = 0; i < count; ++i) {
    const Dims at = unravel(i, sizes);
    for (int k = 0; k < at.size(); ++k) coordinate[axes[static_cast<size_t>(k)]] = at[k];
    if (a.owned_at(coordinate, dim) != b.owned_at(coordinate, dim)) return false;
  }
  return true;
}

bool is_cut_the_same(const Spec& a, const Spec& b, int dim) {
  const std::vector<int> axes = a.axes_of_dim(dim);
  if (axes != b.axes_of_dim(dim)) return false;
  return std::all_of(axes.begin(), axes.end(),
                     [&](int axis) { return a.placement(axis) == b.placement(axis); });
}

bool same_partials(const Spec& a, const Spec& b) {
  for (int axis = 0; axis < a.mesh().axis_count(); ++axis) {
    const bool partial = a.placement(axis).is_partial();
    if (partial != b.placement(axis).is_partial()) return false;
    if (partial && a.mesh().axis_size(axis) > 1 && a.placement(axis) != b.placement(axis))
      return false;
  }
  return true;
}

}  // namespace

std::vector<int64_t> cut_extents(const Shard& shard, const std::vector<int64_t>& extents,
                                 int64_t ranks) {
  std::vector<int64_t> out;
  for (int64_t extent : extents) {
    if (!shard.sizes.empty()) {
      out.insert(out.end(), shard.sizes.begin(), shard.sizes.end());
    } else if (shard.split == 1) {
      const int64_t piece = ceil_div(extent, ranks);
      const int64_t whole = piece == 0 ? 0 : extent / piece;
      out.push_back(piece);
      if (whole < ranks) out.push_back(extent - whole * piece);
      if (whole + 1 < ranks) out.push_back(0);
    } else {
      for (int64_t i = 0; i < ranks; ++i) out.push_back(cut_length(shard, extent, ranks, i));
    }
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

int64_t Spec::length_at(const Dims& coordinate, int dim) const {
  int64_t extent = shape_[dim];
  for (int axis : order_)
    if (placement(axis).is_shard(dim))
      extent = cut_length(placement(axis).shard(), extent, mesh_.axis_size(axis), coordinate[axis]);
  return extent;
}

Dims Spec::local_shape_at(const Dims& coordinate) const {
  Dims shape = shape_;
  for (int axis : order_) {
    const Placement& cut = placement(axis);
    if (!cut.is_shard()) continue;
    int64_t& extent = shape[cut.shard().dim];
    extent = cut_length(cut.shard(), extent, mesh_.axis_size(axis), coordinate[axis]);
  }
  return shape;
}

Dims Spec::local_shape(int64_t rank) const { return local_shape_at(coordinate_on(mesh_, rank)); }

Runs Spec::owned_at(const Dims& coordinate, int dim) const {
  Runs runs;
  int64_t extent = shape_[dim];
  if (extent > 0) runs.push_back({0, extent});
  for (int axis : order_) {
    if (!placement(axis).is_shard(dim)) continue;
    Runs left;
    for_each_stretch(
        placement(axis).shard(), extent, mesh_.axis_size(axis), coordinate[axis],
        [&](int64_t start, int64_t count) { take_positions(runs, start, count, left); });
    runs = std::move(left);
    extent = length(runs);
  }
  return runs;
}

Runs Spec::owned(int64_t rank, int dim) const { return owned_at(coordinate_on(mesh_, rank), dim); }

Dims Spec::start(int64_t rank) const {
  const Dims coordinate = coordinate_on(mesh_, rank);
  Dims start;
  for (int dim = 0; dim < shape_.size(); ++dim) {
    if (length_at(coordinate, dim) == 0) {
      start.push_back(shape_[dim]);
      continue;
    }
    const std::vector<int> axes = axes_of_dim(dim);
    std::vector<int64_t> extents = {shape_[dim]};
    for (int axis : axes)
      extents.push_back(cut_length(placement(axis).shard(), extents.back(), mesh_.axis_size(axis),
                                   coordinate[axis]));
    int64_t local = 0;
    for (size_t i = axes.size(); i-- > 0;)
      local = place_before_cut(placement(axes[i]).shard(), extents[i], mesh_.axis_size(axes[i]),
                               coordinate[axes[i]], local);
    start.push_back(local);
  }
  return start;
}

int64_t Spec::max_local_elements() const {
  int64_t elements = 1;
  for (int dim = 0; dim < shape_.size(); ++dim) {
    std::vector<int64_t> extents = {shape_[dim]};
    for (int axis : order_)
      if (placement(axis).is_shard(dim))
        extents = cut_extents(placement(axis).shard(), extents, mesh_.axis_size(axis));
    elements *= extents.front();
  }
  return elements;
}

bool Spec::same_ownership(const Spec& other) const {
  if (dtype_ != other.dtype_ || shape_ != other.shape_ || mesh_ != other.mesh_) return false;
  if (!same_partials(*this, other)) return false;
  for (int dim = 0; dim < shape_.size(); ++dim)
    if (!is_cut_the_same(*this, other, dim) && !same_runs_everywhere(*this, other, dim))
      return false;
  return true;
}

}  // namespace shardproof
