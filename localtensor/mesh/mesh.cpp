// Implements mesh.h, except the text form (mesh_text.cpp) and the algebra (mesh_slice.cpp).
#include "shardproof/localtensor/mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/mesh/mesh_data.h"

namespace shardproof {

namespace {

using Named = std::vector<std::pair<std::string, int64_t>>;

int64_t product_of_sizes(const Named& axes) {
  int64_t product = 1;
  for (const auto& [name, size] : axes) {
    if (size < 1) throw_bad_input("mesh axis '{}' has size {}; sizes start at 1", name, size);
    if (product > std::numeric_limits<int32_t>::max() / size)
      throw Error(ErrorKind::limit, "a mesh cannot have more than 2147483647 ranks");
    product *= size;
  }
  return product;
}

// Stores a list only if the ranks are not consecutive; else their first one is enough.
void set_ranks(MeshData& data, std::vector<int32_t> ranks) {
  if (ranks.empty()) return;
  bool consecutive = true;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0) throw_bad_input("rank {} is negative; ranks start at 0", ranks[i]);
    consecutive &= ranks[i] == ranks[0] + static_cast<int64_t>(i);
  }
  if (consecutive) {
    data.first = ranks[0];
    return;
  }
  auto map = std::make_shared<RankMap>();
  map->by_rank.resize(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) map->by_rank[i] = static_cast<int32_t>(i);
  std::sort(map->by_rank.begin(), map->by_rank.end(), [&](int32_t a, int32_t b) {
    return ranks[static_cast<size_t>(a)] < ranks[static_cast<size_t>(b)];
  });
  for (size_t i = 1; i < ranks.size(); ++i) {
    const int32_t rank = ranks[static_cast<size_t>(map->by_rank[i])];
    if (rank == ranks[static_cast<size_t>(map->by_rank[i - 1])])
      throw_bad_input("rank {} occurs twice in the mesh; list each rank once", rank);
  }
  map->ranks = std::move(ranks);
  data.map = std::move(map);
}

}  // namespace

void check_axis_names(const std::vector<MeshAxis>& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) throw_bad_input("a mesh axis has no name");
    for (size_t j = 0; j < i; ++j)
      if (axes[j].name == axes[i].name)
        throw_bad_input("two mesh axes have the name '{}'; give each axis its own", axes[i].name);
  }
}

Mesh::Mesh() {
  static const auto none = std::make_shared<const Data>();
  data_ = none;
}

Mesh Mesh::make(Named axes, std::vector<int32_t> ranks) {
  const int64_t size = product_of_sizes(axes);
  if (!ranks.empty() && static_cast<int64_t>(ranks.size()) != size)
    throw_bad_input("expected {} ranks, the product of the axis sizes of the mesh, found {}", size,
                    ranks.size());
  auto data = std::make_shared<Data>();
  if (axes.size() > static_cast<size_t>(Dims::kCapacity))
    throw_bad_input("expected at most {} mesh axes, found {}", static_cast<int>(Dims::kCapacity),
                    axes.size());
  int64_t stride = size;
  for (auto& [name, extent] : axes) {
    stride /= extent;
    data->axes.push_back({std::move(name), extent, stride, {{extent, stride}}});
  }
  check_axis_names(data->axes);
  data->root_size = size;
  data->root_axes = data->axes;
  set_ranks(*data, std::move(ranks));
  return Mesh(std::move(data));
}

const std::vector<MeshAxis>& Mesh::axes() const { return data_->axes; }
int64_t Mesh::root_size() const { return data_->root_size; }
int64_t Mesh::offset() const { return data_->offset; }
bool Mesh::is_sliced() const { return data_->sliced; }
bool Mesh::is_mapped() const { return data_->map != nullptr; }

int64_t Mesh::size() const {
  int64_t size = 1;
  for (const MeshAxis& axis : axes()) size *= axis.size;
  return size;
}

std::optional<int> Mesh::find_axis(std::string_view name) const {
  for (int i = 0; i < axis_count(); ++i)
    if (axes()[static_cast<size_t>(i)].name == name) return i;
  return std::nullopt;
}

int Mesh::axis(std::string_view name) const {
  if (auto found = find_axis(name)) return *found;
  NearestName nearest(name);
  for (const MeshAxis& axis : axes()) nearest.offer(axis.name);
  throw_bad_input("no mesh axis '{}' in \"{}\"{}", name, to_string(*this), nearest.hint());
}

Dims Mesh::shape() const {
  Dims shape;
  for (const MeshAxis& axis : axes()) shape.push_back(axis.size);
  return shape;
}

int32_t Mesh::rank_of_position(int64_t position) const {
  if (data_->map) return data_->map->ranks[static_cast<size_t>(position)];
  return static_cast<int32_t>(data_->first + position);
}

std::optional<int64_t> Mesh::position_of(int64_t rank) const {
  if (!data_->map) {
    const int64_t position = rank - data_->first;
    if (position < 0 || position >= data_->root_size) return std::nullopt;
    return position;
  }
  const RankMap& map = *data_->map;
  auto found = std::lower_bound(
      map.by_rank.begin(), map.by_rank.end(), rank,
      [&](int32_t at, int64_t wanted) { return map.ranks[static_cast<size_t>(at)] < wanted; });
  if (found == map.by_rank.end() || map.ranks[static_cast<size_t>(*found)] != rank)
    return std::nullopt;
  return *found;
}

int32_t Mesh::rank_at(const Dims& coordinate) const {
  SP_CHECK(coordinate.size() == axis_count(), "a coordinate of {} for {} axes", coordinate.size(),
           axis_count());
  int64_t position = data_->offset;
  for (int i = 0; i < axis_count(); ++i) {
    const MeshAxis& axis = axes()[static_cast<size_t>(i)];
    SP_CHECK(coordinate[i] >= 0 && coordinate[i] < axis.size, "coordinate {} on axis {}",
             coordinate[i], axis.name);
    position += position_on_axis(axis, coordinate[i]);
  }
  return rank_of_position(position);
}

std::optional<Dims> Mesh::coordinate_of(int64_t rank) const {
  const auto position = position_of(rank);
  if (!position) return std::nullopt;
  std::array<int64_t, Dims::kCapacity> coordinate;
  size_t count = 0;
  int64_t covered = 1;
  for (const MeshAxis& axis : axes()) {
    coordinate[count++] = coordinate_on_axis(axis, *position);
    covered *= axis.size;
  }
  // In the usual case the axes have all positions of the root mesh, so also this one.
  if (!data_->sliced && covered != data_->root_size) {
    int64_t rest = *position;
    for (size_t i = 0; i < count; ++i) rest -= position_on_axis(axes()[i], coordinate[i]);
    if (rest != data_->offset) return std::nullopt;
  }
  return Dims(std::span<const int64_t>(coordinate.data(), count));
}

Lanes Mesh::ranks() const {
  const int64_t count = size();
  if (!data_->map && count == data_->root_size)
    return Lanes::range(data_->first, data_->first + count);
  std::vector<int32_t> ranks;
  ranks.reserve(static_cast<size_t>(count));
  const Dims extents = shape();
  for (int64_t i = 0; i < count; ++i) ranks.push_back(rank_at(unravel(i, extents)));
  return Lanes::of(std::move(ranks));
}

bool Mesh::operator==(const Mesh& other) const {
  if (data_ == other.data_) return true;
  const Data &a = *data_, &b = *other.data_;
  if (a.axes != b.axes || a.offset != b.offset || a.root_size != b.root_size ||
      a.first != b.first || a.sliced != b.sliced)
    return false;
  return a.map == b.map || (a.map && b.map && a.map->ranks == b.map->ranks);
}

}  // namespace shardproof
