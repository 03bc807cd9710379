// Implements exchange_volume.h.
//
// A rank's part is a product over dims. So the number of elements that it holds both before and
// after is the product of the common lengths of all dims. DimOverlap tabulates these lengths by the
// coordinates of the axes that cut a dim. Dims that share axes are one component: the products are
// summed over the coordinates of its axes. Averages of components multiply.
//
// Example: "a:S(0) b:S(1)" to "b:S(0) c:S(1)". Both dims share b: one component with axes a, b, c.
#include "shardproof/localtensor/plan/exchange_volume.h"

#include <algorithm>

#include "shardproof/localtensor/plan/owned_box.h"

namespace shardproof {

namespace {

int64_t part_count(const CutList& cuts) {
  int64_t parts = 1;
  for (const DimCut& cut : cuts) parts *= cut.ranks;
  return parts;
}

// The number of indices of one dim that a rank holds both before and after the move. There is one
// for each coordinate of the axes that cut the dim.
class DimOverlap {
 public:
  explicit DimOverlap(const DimMove& move) : before_(add_axes(*move.before)) {
    after_ = add_axes(*move.after);
    int64_t count = 1;
    for (size_t i = axes_.size(); i-- > 0;) {
      strides_.insert(strides_.begin(), count);
      count *= sizes_[i];
    }
    const std::vector<Runs> held = owned_runs(*move.before, move.extent);
    const std::vector<Runs> wanted = owned_runs(*move.after, move.extent);
    std::vector<int64_t> at(axes_.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      common_.push_back(common_length(held[number(before_, at)], wanted[number(after_, at)]));
      for (size_t k = axes_.size(); k-- > 0;) {
        if (++at[k] < sizes_[k]) break;
        at[k] = 0;
      }
    }
  }
  const std::vector<int>& axes() const { return axes_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t stride(int axis) const {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i] == axis) return strides_[i];
    return 0;
  }
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

  std::vector<int> axes_;
  std::vector<int64_t> sizes_, strides_;
  std::vector<size_t> before_, after_;  // positions in axes_, in order of the cuts
  std::vector<int64_t> common_;
};

// Dims that share axes, directly or through other dims.
struct Component {
  uint64_t axes = 0;
  std::vector<DimMove> dims;
};

uint64_t axes_of(const DimMove& move) {
  uint64_t axes = 0;
  for (const CutList* cuts : {move.before, move.after})
    for (const DimCut& cut : *cuts) axes |= uint64_t{1} << cut.axis;
  return axes;
}

std::vector<Component> components_of(const std::vector<DimMove>& dims) {
  std::vector<Component> components;
  for (const DimMove& move : dims) {
    Component joined{axes_of(move), {move}};
    for (size_t i = components.size(); i-- > 0;) {
      if ((components[i].axes & joined.axes) == 0) continue;
      joined.axes |= components[i].axes;
      joined.dims.insert(joined.dims.end(), components[i].dims.begin(), components[i].dims.end());
      components.erase(components.begin() + static_cast<std::ptrdiff_t>(i));
    }
    components.push_back(std::move(joined));
  }
  return components;
}

// Returns the product, over the dims of a component, of the lengths held before and after; on
// average over the ranks.
Fraction common_of(const Component& component) {
  if (component.dims.size() == 1 && *component.dims[0].before == *component.dims[0].after)
    return Fraction(component.dims[0].extent, part_count(*component.dims[0].before));
  std::vector<DimOverlap> tables(component.dims.begin(), component.dims.end());
  std::vector<int64_t> sizes, strides;  // strides: by axis, then by table
  uint64_t listed = 0;
  for (const DimOverlap& table : tables)
    for (size_t i = 0; i < table.axes().size(); ++i) {
      const int axis = table.axes()[i];
      if ((listed >> axis & 1) != 0) continue;
      listed |= uint64_t{1} << axis;
      sizes.push_back(table.sizes()[i]);
      for (const DimOverlap& of : tables) strides.push_back(of.stride(axis));
    }
  std::vector<int64_t> places(tables.size(), 0), at(sizes.size(), 0);
  int64_t total = 0, ranks = 1;
  for (int64_t size : sizes) ranks *= size;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    int64_t common = 1;
    for (size_t t = 0; t < tables.size() && common > 0; ++t)
      common *= tables[t].common_at(places[t]);
    total += common;
    for (size_t i = sizes.size(); i-- > 0;) {
      const int64_t* stride = strides.data() + i * tables.size();
      const bool more = ++at[i] < sizes[i];
      for (size_t t = 0; t < tables.size(); ++t)
        places[t] += more ? stride[t] : -stride[t] * (sizes[i] - 1);
      if (more) break;
      at[i] = 0;
    }
  }
  return Fraction(total, ranks);
}

}  // namespace

Fraction missing_elements(const std::vector<DimMove>& dims) {
  Fraction after(1), common(1);
  for (const DimMove& move : dims) after = after * Fraction(move.extent, part_count(*move.after));
  for (const Component& component : components_of(dims)) common = common * common_of(component);
  return after - common;
}

Fraction missing_elements(const Spec& from, const Spec& to) {
  std::vector<CutList> before, after;
  std::vector<DimMove> dims;
  for (int dim = 0; dim < from.shape().size(); ++dim) {
    before.push_back(cuts_of_dim(from, dim));
    after.push_back(cuts_of_dim(to, dim));
  }
  for (int dim = 0; dim < from.shape().size(); ++dim)
    dims.push_back(
        {from.shape()[dim], &before[static_cast<size_t>(dim)], &after[static_cast<size_t>(dim)]});
  return missing_elements(dims);
}

}  // namespace shardproof
