// Implements ops/layout/reshape_placements.h. Propagation of placements in steps:
//
//   1. group_dims() pairs neighbouring dims of input and output with equal products: [4, 6] -> [24]
//   is one group, [4, 6] -> [4, 2, 3] is two.
//   2. Axes are placed in the order in which they shard. An axis that shards a group of equal dims
//   keeps its shard.
//   3. For any other group, candidates_for() lists shards of the output dims. The first one
//   whose owned flat indices equal the input's at every coordinate (agree()) is chosen.
//
// Example: [4, 6] with S(0) over 2 ranks owns flat indices 0-11 and 12-23, so [24] gets S(0). With
// S(1), rank 0 owns 0-2, 6-8, 12-14, 18-20, which [24] holds as S(0, split=4).
#include "shardproof/ops/layout/reshape_placements.h"

#include <vector>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Neighbouring dims of input and output that hold the same elements: their products are equal, and
// no smaller group has this property. A rank's part is a product over dims, so groups can be
// checked one by one.
struct DimGroup {
  int in = 0, in_end = 0, out = 0, out_end = 0;
  bool identity(const Dims& from, const Dims& to) const {
    return in_end - in == 1 && out_end - out == 1 && from[in] == to[out];
  }
};

std::vector<DimGroup> group_dims(const Dims& from, const Dims& to) {
  std::vector<DimGroup> groups;
  int i = 0, o = 0;
  while (i < from.size() || o < to.size()) {
    DimGroup group{i, i, o, o};
    int64_t left = i < from.size() ? from[i++] : 1, right = o < to.size() ? to[o++] : 1;
    while (left != right) {
      if (left < right && i < from.size())
        left *= from[i++];
      else if (right < left && o < to.size())
        right *= to[o++];
      else
        break;
    }
    group.in_end = i;
    group.out_end = o;
    groups.push_back(group);
  }
  return groups;
}

// Iterates over the flat indices (within a group of dims) that a coordinate owns, in local order,
// as runs.
class FlatRunIterator {
 public:
  FlatRunIterator(const Spec& spec, const Dims& coordinate, int begin, int end) {
    int last = end - 1;
    // Inner dims that are held whole form one long step.
    while (last >= begin && held_whole(spec, coordinate, last)) block_ *= spec.shape()[last--];
    if (last >= begin) {
      runs_ = spec.owned_at(coordinate, last);
      int64_t step = block_ * spec.shape()[last];
      for (int d = last - 1; d >= begin; step *= spec.shape()[d--])
        outer_.push_back(offsets(spec.owned_at(coordinate, d), step));
    } else {
      runs_ = {{0, 1}};
    }
    at_.resize(outer_.size());
    for (const auto& offsets : outer_) done_ = done_ || offsets.empty();
    done_ = done_ || runs_.empty();
    fetch();
  }
  // Joins adjacent runs, so that two iterations over the same indices give the same runs.
  bool next(Run& run) {
    if (!pending_.length) return false;
    run = pending_;
    for (fetch(); pending_.length && pending_.start == run.start + run.length; fetch())
      run.length += pending_.length;
    return true;
  }

 private:
  static bool held_whole(const Spec& spec, const Dims& coordinate, int dim) {
    Runs runs = spec.owned_at(coordinate, dim);
    return runs.size() == 1 && runs[0].start == 0 && runs[0].length == spec.shape()[dim];
  }
  static std::vector<int64_t> offsets(const Runs& runs, int64_t step) {
    std::vector<int64_t> found;
    for (const Run& run : runs)
      for (int64_t i = 0; i < run.length; ++i) found.push_back((run.start + i) * step);
    return found;
  }
  void fetch() {
    pending_ = {};
    if (done_) return;
    int64_t base = 0;
    for (size_t d = 0; d < outer_.size(); ++d) base += outer_[d][at_[d]];
    pending_ = {base + runs_[run_].start * block_, runs_[run_].length * block_};
    if (++run_ < runs_.size()) return;
    run_ = 0;
    size_t d = 0;  // outer_ starts with the innermost dim
    while (d < outer_.size() && ++at_[d] == outer_[d].size()) at_[d++] = 0;
    done_ = d == outer_.size();
  }

  int64_t block_ = 1;
  Runs runs_;
  std::vector<std::vector<int64_t>> outer_;
  std::vector<size_t> at_;
  size_t run_ = 0;
  bool done_ = false;
  Run pending_;
};

class Propagation {
 public:
  Propagation(const Spec& input, const Dims& shape)
      : input_(input), shape_(shape), groups_(group_dims(input.shape(), shape)) {}

  // Places the axes in the order in which they shard. After each one, both sides must own the same
  // indices at every coordinate.
  std::optional<Spec> run() {
    size_t axes = input_.placements().size();
    cut_.assign(axes, R());
    given_.assign(axes, R());
    for (int axis : input_.order())
      if (!place(axis)) return std::nullopt;
    return make(given_, shape_);
  }

 private:
  bool place(int axis) {
    const Placement& placement = input_.placement(axis);
    if (!placement.is_shard()) {
      given_[static_cast<size_t>(axis)] = placement;
      cut_[static_cast<size_t>(axis)] = placement;
      return true;
    }
    const DimGroup& group = group_of(placement.shard().dim);
    Shard shard = placement.shard();
    if (group.identity(input_.shape(), shape_)) {
      shard.dim = group.out;
      cut_[static_cast<size_t>(axis)] = placement;
      given_[static_cast<size_t>(axis)] = shard;
      return true;
    }
    std::vector<Shard> candidates = candidates_for(axis, group);
    cut_[static_cast<size_t>(axis)] = placement;
    auto from = make(cut_, input_.shape());
    for (const Shard& candidate : candidates) {
      given_[static_cast<size_t>(axis)] = candidate;
      auto to = make(given_, shape_);
      if (from && to && agree(*from, *to, group)) return true;
    }
    return false;
  }

  const DimGroup& group_of(int dim) const {
    for (const DimGroup& group : groups_)
      if (dim >= group.in && dim < group.in_end) return group;
    SP_UNREACHABLE("dim {} is in no group", dim);
  }

  std::optional<Spec> make(const std::vector<Placement>& placements, const Dims& shape) const {
    try {
      return Spec(input_.mesh(), placements, shape, input_.dtype(), input_.order());
    } catch (const Error&) {  // explicit sizes do not fit at some coordinate
      return std::nullopt;
    }
  }

  // The shard divides each of `pieces` equal stretches of the group's local part. An output dim
  // gives the same division if the dims before it make up a whole divisor of the pieces.
  std::vector<Shard> candidates_for(int axis, const DimGroup& group) const {
    const Shard& shard = input_.placement(axis).shard();
    std::vector<Shard> found;
    auto from = make(cut_, input_.shape()), to = make(given_, shape_);
    if (!from || !to) return found;
    Dims origin = Dims::filled(input_.mesh().axis_count(), 0);
    Dims in = from->local_shape_at(origin), out = to->local_shape_at(origin);
    int64_t pieces = shard.split;
    for (int d = group.in; d < shard.dim; ++d) pieces *= in[d];
    for (int d = group.out; d < group.out_end; ++d) {
      if (pieces > 0 && pieces <= out[d]) found.push_back({d, pieces, {}});
      if (pieces == 1) add_sizes(axis, group, d, found);
      if (out[d] == 0 || pieces % out[d] != 0) break;
      pieces /= out[d];
    }
    return found;
  }

  // Adds the candidate for uneven shards: the sizes of the input's shards, divided by the product
  // of the later dims of the group.
  void add_sizes(int axis, const DimGroup& group, int dim, std::vector<Shard>& found) const {
    std::vector<Placement> cut = cut_;
    cut[static_cast<size_t>(axis)] = input_.placement(axis);
    auto from = make(cut, input_.shape()), to = make(given_, shape_);
    if (!from || !to) return;
    Shard shard{dim, 1, {}};
    Dims at = Dims::filled(input_.mesh().axis_count(), 0);
    Dims out = to->local_shape_at(at);
    int64_t behind = 1;
    for (int d = dim + 1; d < group.out_end; ++d) behind *= out[d];
    for (int64_t i = 0; i < input_.mesh().axes()[static_cast<size_t>(axis)].size; ++i) {
      at[axis] = i;
      Dims local = from->local_shape_at(at);
      int64_t elements = 1;
      for (int d = group.in; d < group.in_end; ++d) elements *= local[d];
      if (behind == 0 || elements % behind != 0) return;
      shard.sizes.push_back(elements / behind);
    }
    found.push_back(shard);
  }

  bool cuts(const Spec& spec, int axis, int begin, int end) const {
    const Placement& placement = spec.placement(axis);
    return placement.is_shard() && placement.shard().dim >= begin && placement.shard().dim < end;
  }

  bool agree(const Spec& from, const Spec& to, const DimGroup& group) const {
    Dims extent = Dims::filled(input_.mesh().axis_count(), 1);
    for (int axis = 0; axis < extent.size(); ++axis)
      if (cuts(from, axis, group.in, group.in_end) || cuts(to, axis, group.out, group.out_end))
        extent[axis] = input_.mesh().axes()[static_cast<size_t>(axis)].size;
    for (int64_t i = 0; i < element_count(extent); ++i) {
      Dims at = unravel(i, extent);
      FlatRunIterator left(from, at, group.in, group.in_end),
          right(to, at, group.out, group.out_end);
      Run a, b;
      while (true) {
        bool more = left.next(a);
        if (more != right.next(b) || (more && a != b)) return false;
        if (!more) break;
      }
    }
    return true;
  }

  const Spec& input_;
  Dims shape_;
  std::vector<DimGroup> groups_;
  std::vector<Placement> cut_, given_;  // of the axes placed so far, on the input and on the output
};

}  // namespace

std::optional<Spec> reshaped_spec(const Spec& input, const Dims& shape) {
  // Without elements, ownership does not distinguish dims: only unsharded inputs are safe.
  if (element_count(shape) == 0)
    for (const Placement& placement : input.placements())
      if (placement.is_shard()) return std::nullopt;
  return Propagation(input, shape).run();
}

}  // namespace shardproof
