// Implements exchange_volume.h.
//
// A rank's part is a product over dims, so the elements that it holds before and after are the
// product of the lengths that the dims have in common. DimOverlap tabulates these lengths by the
// coordinates of the axes that cut a dim; missing_elements sums the products over all coordinates.
#include "shardproof/localtensor/plan/exchange_volume.h"

#include <algorithm>

#include "shardproof/localtensor/plan/owned_box.h"

namespace shardproof {

namespace {

constexpr int64_t kMaxExchangeCounts = int64_t{1} << 20;

// True if every cut divides evenly, so that all groups miss the same.
bool is_regular(const CutList& cuts, int64_t extent) {
  int64_t parts = 1;
  for (const DimCut& cut : cuts) {
    if (!cut.shard.sizes.empty()) return false;
    parts *= cut.ranks * cut.shard.split;
  }
  return extent % parts == 0;
}

// The length of a rank's part of one dim after the move, and of the indices held both before and
// after, for each coordinate of the axes that cut the dim.
class DimOverlap {
 public:
  explicit DimOverlap(const DimMove& move) : before_(add_axes(*move.before)) {
    after_ = add_axes(*move.after);
    int64_t count = 1;
    for (size_t i = axes_.size(); i-- > 0;) {
      strides_.insert(strides_.begin(), count);
      count *= sizes_[i];
    }
    const std::vector<Runs> held = all_runs(*move.before, move.extent);
    const std::vector<Runs> wanted = all_runs(*move.after, move.extent);
    std::vector<int64_t> at(axes_.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      const Runs& target = wanted[number(after_, at)];
      after_length_.push_back(length(target));
      common_.push_back(common_length(held[number(before_, at)], target));
      for (size_t k = axes_.size(); k-- > 0;) {
        if (++at[k] < sizes_[k]) break;
        at[k] = 0;
      }
    }
  }
  uint64_t axes() const {
    uint64_t mask = 0;
    for (int axis : axes_) mask |= uint64_t{1} << axis;
    return mask;
  }
  int64_t stride(int axis) const {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i] == axis) return strides_[i];
    return 0;
  }
  int64_t after_at(int64_t place) const { return after_length_[static_cast<size_t>(place)]; }
  int64_t common_at(int64_t place) const { return common_[static_cast<size_t>(place)]; }

 private:
  std::vector<size_t> add_axes(const CutList& cuts) {
    std::vector<size_t> places;
    for (const DimCut& cut : cuts) {
      const auto known = std::find(axes_.begin(), axes_.end(), cut.axis);
      places.push_back(static_cast<size_t>(known - axes_.begin()));
      if (known != axes_.end()) continue;
      axes_.push_back(cut.axis);
      sizes_.push_back(cut.ranks);
    }
    return places;
  }
  size_t number(const std::vector<size_t>& places, const std::vector<int64_t>& at) const {
    int64_t number = 0;
    for (size_t place : places) number = number * sizes_[place] + at[place];
    return static_cast<size_t>(number);
  }
  // Returns the runs at each coordinate of the cutting axes, numbered as number() does.
  static std::vector<Runs> all_runs(const CutList& cuts, int64_t extent) {
    std::vector<Runs> runs;
    std::vector<int64_t> at(cuts.size(), 0);
    for (bool more = true; more;) {
      runs.push_back(owned_runs(cuts, extent, at));
      more = false;
      for (size_t k = cuts.size(); k-- > 0;) {
        if (++at[k] < cuts[k].ranks) {
          more = true;
          break;
        }
        at[k] = 0;
      }
    }
    return runs;
  }

  std::vector<int> axes_;
  std::vector<int64_t> sizes_, strides_;
  std::vector<size_t> before_, after_;  // positions in axes_, in order of the cuts
  std::vector<int64_t> after_length_, common_;
};

// Iterates over coordinates of axes; the place in each table follows.
class Places {
 public:
  Places(const std::vector<DimOverlap>& tables, const std::vector<int64_t>& axis_sizes,
         uint64_t axes)
      : places(tables.size(), 0) {
    for (int axis = 0; axis < static_cast<int>(axis_sizes.size()); ++axis) {
      if ((axes >> axis & 1) == 0) continue;
      sizes_.push_back(axis_sizes[static_cast<size_t>(axis)]);
      for (const DimOverlap& table : tables) strides_.push_back(table.stride(axis));
    }
    at_.assign(sizes_.size(), 0);
  }
  bool advance() {
    for (size_t i = sizes_.size(); i-- > 0;) {
      const int64_t* strides = strides_.data() + i * places.size();
      const bool more = ++at_[i] < sizes_[i];
      for (size_t t = 0; t < places.size(); ++t)
        places[t] += more ? strides[t] : -strides[t] * (sizes_[i] - 1);
      if (more) return true;
      at_[i] = 0;
    }
    return false;
  }
  std::vector<int64_t> places;  // by table

 private:
  std::vector<int64_t> sizes_, strides_, at_;
};

}  // namespace

int64_t missing_elements(const std::vector<DimMove>& dims, const std::vector<int64_t>& axis_sizes,
                         uint64_t group) {
  std::vector<DimOverlap> tables;
  int64_t uncut = 1;
  bool even = true;
  uint64_t used = 0;
  for (const DimMove& move : dims) {
    if (move.before->empty() && move.after->empty()) {
      uncut *= move.extent;
      continue;
    }
    even = even && is_regular(*move.before, move.extent) && is_regular(*move.after, move.extent);
    used |= tables.emplace_back(move).axes();
  }
  int64_t alike = uncut;  // ranks along axes that cut nothing miss the same
  for (int axis = 0; axis < static_cast<int>(axis_sizes.size()); ++axis)
    if ((group & ~used) >> axis & 1) alike *= axis_sizes[static_cast<size_t>(axis)];
  Places others(tables, axis_sizes, used & ~group), members(tables, axis_sizes, used & group);
  int64_t most = 0;
  do {
    int64_t missing = 0;
    do {
      int64_t after = 1, common = 1;
      for (size_t t = 0; t < tables.size(); ++t) {
        const int64_t place = others.places[t] + members.places[t];
        after *= tables[t].after_at(place);
        common *= tables[t].common_at(place);
      }
      missing += after - common;
    } while (members.advance());
    most = std::max(most, missing);
  } while (!even && others.advance());
  return most * alike;
}

int64_t missing_elements(const Spec& from, const Spec& to, uint64_t group) {
  std::vector<CutList> before, after;
  std::vector<DimMove> dims;
  std::vector<int64_t> sizes;
  for (int dim = 0; dim < from.shape().size(); ++dim) {
    before.push_back(cuts_of_dim(from, dim));
    after.push_back(cuts_of_dim(to, dim));
  }
  for (int dim = 0; dim < from.shape().size(); ++dim)
    dims.push_back(
        {from.shape()[dim], &before[static_cast<size_t>(dim)], &after[static_cast<size_t>(dim)]});
  for (const MeshAxis& axis : from.mesh().axes()) sizes.push_back(axis.size);
  return missing_elements(dims, sizes, group);
}

bool can_exchange(const Mesh& mesh, uint64_t group) {
  int64_t counts = mesh.size();
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (group >> axis & 1) counts *= mesh.axis_size(axis);
  return counts <= kMaxExchangeCounts;
}

}  // namespace shardproof
