// Implements exchange_volume.h.
//
// A rank's part is a product over dims. So the number of elements that it holds both before and
// after is the product of the common lengths of all dims. DimOverlap tabulates these lengths by the
// coordinates of the axes that cut a dim: it merges the pieces before and after. Dims that share
// axes are one component: the products are summed over the coordinates of its axes. Averages of
// components multiply.
//
// Example: "a:S(0) b:S(1)" to "b:S(0) c:S(1)". Both dims share b: one component with axes a, b, c.
#include "shardproof/localtensor/plan/exchange_volume.h"

#include <algorithm>
#include <array>
#include <bit>

#include "shardproof/localtensor/base/short_list.h"

namespace shardproof {

namespace {

constexpr size_t kMaxAxes = 64;  // bits of a mask

uint64_t axes_of(const DimMove& move) { return move.axes_before | move.axes_after; }

int64_t ranks_along(uint64_t axes, const MeshAxes& mesh) {
  int64_t ranks = 1;
  for (; axes != 0; axes &= axes - 1)
    ranks *= mesh.sizes[static_cast<size_t>(std::countr_zero(axes))];
  return ranks;
}

// Calls each(length, owner) for each stretch of indices that one rank holds both before and after.
template <typename Each>
void for_each_common(const DimMove& move, const MeshAxes& mesh, const Each& each) {
  const uint64_t shared = mesh.bits.bits_of(move.axes_before & move.axes_after);
  for_each_overlap(*move.before, *move.after, [&](int64_t length, uint64_t before, uint64_t after) {
    if (((before ^ after) & shared) == 0) each(length, before | after);
  });
}

// The number of indices of one dim that a rank holds both before and after the move. There is one
// for each coordinate of the axes that cut the dim.
class DimOverlap {
 public:
  DimOverlap(const DimMove& move, const MeshAxes& mesh) : axes_(axes_of(move)), mesh_(mesh) {
    common_.assign(static_cast<size_t>(ranks_along(axes_, mesh)), 0);
    for_each_common(move, mesh,
                    [&](int64_t length, uint64_t owner) { common_[place_of(owner)] += length; });
  }
  // Returns the distance of places at neighbouring coordinates of the axis; 0 if it does not cut.
  int64_t stride(int axis) const {
    if ((axes_ >> axis & 1) == 0) return 0;
    return ranks_along(axes_ & (~uint64_t{1} << axis), mesh_);
  }
  int64_t common_at(int64_t place) const { return common_[static_cast<size_t>(place)]; }

 private:
  size_t place_of(uint64_t owner) const {
    int64_t place = 0;
    for (uint64_t axes = axes_; axes != 0; axes &= axes - 1) {
      const int axis = std::countr_zero(axes);
      place = place * mesh_.sizes[static_cast<size_t>(axis)] + mesh_.bits.coordinate(owner, axis);
    }
    return static_cast<size_t>(place);
  }

  uint64_t axes_;
  const MeshAxes& mesh_;
  std::vector<int64_t> common_;
};

// Returns the sum of the lengths in one dim, over the ranks along its axes.
int64_t total_of_one(const DimMove& move, const MeshAxes& mesh) {
  int64_t total = 0;
  for_each_common(move, mesh, [&](int64_t length, uint64_t) { total += length; });
  return total;
}

// Returns the sum, over the ranks along the axes, of the products of the lengths in several dims.
int64_t total_of_all(std::span<const DimMove> dims, uint64_t axes, const MeshAxes& mesh) {
  std::vector<DimOverlap> tables;
  tables.reserve(dims.size());
  for (const DimMove& move : dims) tables.emplace_back(move, mesh);
  ShortList<int64_t, kMaxAxes> sizes;
  ShortList<int64_t, kMaxAxes * kMaxDims> strides;  // by axis, then by table
  for (; axes != 0; axes &= axes - 1) {
    const int axis = std::countr_zero(axes);
    sizes.push_back(mesh.sizes[static_cast<size_t>(axis)]);
    for (const DimOverlap& table : tables) strides.push_back(table.stride(axis));
  }
  std::array<int64_t, kMaxDims> places{};
  std::array<int64_t, kMaxAxes> at{};
  int64_t total = 0;
  for (bool more = true; more;) {
    int64_t common = 1;
    for (size_t t = 0; t < tables.size() && common > 0; ++t)
      common *= tables[t].common_at(places[t]);
    total += common;
    more = false;
    for (size_t i = sizes.size(); i-- > 0 && !more;) {
      const int64_t* stride = strides.begin() + i * tables.size();
      more = ++at[i] < sizes[i];
      for (size_t t = 0; t < tables.size(); ++t)
        places[t] += more ? stride[t] : -stride[t] * (sizes[i] - 1);
      if (!more) at[i] = 0;
    }
  }
  return total;
}

}  // namespace

Fraction missing_elements(std::span<const DimMove> dims, const MeshAxes& mesh) {
  Fraction after(1), common(1);
  ShortList<DimMove, kMaxDims> list(dims);
  std::span<DimMove> left(list.begin(), list.end());
  for (const DimMove& move : dims)
    after = after * Fraction(move.extent, ranks_along(move.axes_after, mesh));
  while (!left.empty()) {
    // Dims that share axes with the first one, directly or through other dims, go to the front.
    uint64_t axes = axes_of(left.front());
    auto end = left.begin() + 1;
    for (bool grows = true; grows;) {
      const auto before = end;
      end = std::partition(end, left.end(),
                           [&](const DimMove& move) { return (axes_of(move) & axes) != 0; });
      for (auto move = before; move != end; ++move) axes |= axes_of(*move);
      grows = end != before;
    }
    const int64_t total = end == left.begin() + 1 ? total_of_one(left.front(), mesh)
                                                  : total_of_all({left.begin(), end}, axes, mesh);
    common = common * Fraction(total, ranks_along(axes, mesh));
    left = {end, left.end()};
  }
  return after - common;
}

Fraction missing_elements(const Spec& from, const Spec& to) {
  std::vector<int64_t> sizes;
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis)
    sizes.push_back(from.mesh().axis_size(axis));
  const CoordinateBits bits(sizes);
  const auto dims = static_cast<size_t>(from.shape().size());
  std::vector<OwnedPieces> before(dims), after(dims);
  std::vector<DimMove> moves;
  for (size_t dim = 0; dim < dims; ++dim) {
    const auto number = static_cast<int>(dim);
    const int64_t extent = from.shape()[number];
    before[dim] = owned_pieces(cuts_of_dim(from, number), extent, bits);
    after[dim] = owned_pieces(cuts_of_dim(to, number), extent, bits);
    moves.push_back({extent, &before[dim], &after[dim], mask_of(from.axes_of_dim(number)),
                     mask_of(to.axes_of_dim(number))});
  }
  return missing_elements(moves, {sizes, bits});
}

}  // namespace shardproof
