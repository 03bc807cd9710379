// Implements process_group.h.
//
// A group over axes has two lists of modes (digits of the mesh's positions, see mesh_data.h): those
// of its members and those of its siblings. Member i of sibling s is at the position offset +
// position_at(siblings, s) + position_at(members, i). Example: the groups of axes {tp} of "dp=2,
// tp=4" have the members 4:1 and the siblings 2:4 (size:stride). Member 2 of sibling 1 is rank 4 +
// 2 = 6.
//
// On a sliced mesh the siblings are all digits of the root that the members do not use
// (complement). A rank list mixes up the order of siblings; `order` and `place` sort them by first
// member.
#include "shardproof/localtensor/mesh/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

namespace {

using Modes = std::vector<MeshMode>;

// Appends a mode; joins it to the last one if both have one common stride, so that equal sequences
// of positions get equal modes.
void append_mode(Modes& modes, MeshMode mode) {
  if (mode.size == 1) return;
  if (!modes.empty() && modes.back().stride == mode.stride * mode.size)
    modes.back() = {modes.back().size * mode.size, mode.stride};
  else
    modes.push_back(mode);
}

int64_t size_of_modes(const Modes& modes) {
  int64_t size = 1;
  for (const MeshMode& mode : modes) size *= mode.size;
  return size;
}

int64_t position_at(const Modes& modes, int64_t index) {
  int64_t position = 0;
  for (size_t i = modes.size(); i-- > 0;) {
    position += index % modes[i].size * modes[i].stride;
    index /= modes[i].size;
  }
  return position;
}

int64_t index_at(const Modes& modes, int64_t position) {
  int64_t index = 0;
  for (const MeshMode& mode : modes)
    index = index * mode.size + (position / mode.stride) % mode.size;
  return index;
}

// Finds modes with position_at(modes, i) == values[i] - values[0]; false if there are none.
// Example: 3 4 7 8 has the modes 2:4, 2:1. Each pass finds the fastest mode and continues with
// every run-th value.
bool modes_of(std::vector<int64_t> values, Modes& modes) {
  const int64_t base = values[0];
  for (int64_t& value : values) value -= base;
  modes.clear();
  while (values.size() > 1) {
    const int64_t stride = values[1];
    size_t run = 2;
    while (run < values.size() && values[run] == static_cast<int64_t>(run) * stride) ++run;
    if (stride <= 0 || values.size() % run != 0) return false;
    std::vector<int64_t> outer;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % run == 0) outer.push_back(values[i]);
      if (values[i] != outer.back() + static_cast<int64_t>(i % run) * stride) return false;
    }
    modes.insert(modes.begin(), {static_cast<int64_t>(run), stride});
    values = std::move(outer);
  }
  return true;
}

std::string text_of(const Modes& modes) {
  std::string out;
  for (const MeshMode& mode : modes)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", mode.size, mode.stride);
  return out;
}

// Returns the digits of the root's positions that `members` does not use, slowest first. Example:
// the complement of 2:2 in 8 positions is 2:4, 2:1.
Modes complement(Modes members, int64_t root_size) {
  std::sort(members.begin(), members.end(),
            [](const MeshMode& a, const MeshMode& b) { return a.stride > b.stride; });
  Modes rest;
  int64_t above = root_size;
  for (const MeshMode& mode : members) {
    append_mode(rest, {above / (mode.stride * mode.size), mode.stride * mode.size});
    above = mode.stride;
  }
  append_mode(rest, {above, 1});
  return rest;
}

}  // namespace

struct Group::Data {
  std::string name, key;
  Mesh mesh;
  std::vector<int> axes;
  Modes members, siblings;       // digits of the positions of the mesh
  std::vector<int32_t> list;     // ranks of a group that the author listed, else empty
  std::vector<int32_t> by_rank;  // indices in `list`, in order of rank
  std::vector<int32_t> order;    // mapped mesh: sibling by first member -> sibling by position
  std::vector<int32_t> place;    // mapped mesh: the inverse of `order`
  int64_t size = 0, count = 0;

  int32_t plain_member(int64_t sibling, int64_t index) const {
    return mesh.rank_of_position(mesh.offset() + position_at(siblings, sibling) +
                                 position_at(members, index));
  }
  void number_siblings();
  void set_key();
};

// Without a rank list, siblings in mesh order are already in the order of their first members.
void Group::Data::number_siblings() {
  if (!mesh.is_mapped()) return;
  order.resize(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return plain_member(a, 0) < plain_member(b, 0); });
  place.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
}

// If modes describe the group, the key is "first rank/members/siblings" in modes, so that equal
// groups of different meshes have one key. Otherwise it is a hash of all ranks.
void Group::Data::set_key() {
  if (list.empty() && !mesh.is_mapped()) {
    const int64_t base = mesh.rank_of_position(mesh.offset());
    key = fmt::format("{}/{}/{}", base, text_of(members), text_of(siblings));
    return;
  }
  std::vector<int64_t> firsts, offsets, all;
  bool alike = true;
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t i = 0; i < size; ++i)
      all.push_back(list.empty() ? plain_member(order[static_cast<size_t>(s)], i)
                                 : list[static_cast<size_t>(i)]);
    const size_t start = static_cast<size_t>(s * size);
    firsts.push_back(all[start]);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t offset = all[start + static_cast<size_t>(i)] - firsts.back();
      if (s == 0) offsets.push_back(offset);
      alike &= offsets[static_cast<size_t>(i)] == offset;
    }
  }
  Modes inner, outer;
  if (alike && modes_of(offsets, inner) && modes_of(firsts, outer)) {
    key = fmt::format("{}/{}/{}", firsts[0], text_of(inner), text_of(outer));
  } else {
    const std::string_view bytes(reinterpret_cast<const char*>(all.data()),
                                 all.size() * sizeof(int64_t));
    key = fmt::format("{}x{}#{:016x}", count, size, hash_text(bytes));
  }
}

Group::Group() {
  static const auto none = std::make_shared<const Data>();
  data_ = none;
}

Group::Group(std::shared_ptr<const Data> data)
    : data_(std::move(data)), size_(data_->size), count_(data_->count) {}

Group Group::of_axes(const Mesh& mesh, std::vector<int> axes) {
  auto data = std::make_shared<Data>();
  std::vector<bool> taken(static_cast<size_t>(mesh.axis_count()), false);
  for (int axis : axes) {
    if (axis < 0 || axis >= mesh.axis_count())
      throw_bad_input("axis {} is out of range for the mesh \"{}\"", axis, to_string(mesh));
    if (taken[static_cast<size_t>(axis)])
      throw_bad_input("a group names the axis '{}' twice",
                      mesh.axes()[static_cast<size_t>(axis)].name);
    taken[static_cast<size_t>(axis)] = true;
    const MeshAxis& mesh_axis = mesh.axes()[static_cast<size_t>(axis)];
    data->name += (data->name.empty() ? "" : "+") + mesh_axis.name;
    for (const MeshMode& mode : mesh_axis.modes) append_mode(data->members, mode);
  }
  if (axes.empty()) data->name = "self";
  if (mesh.is_sliced()) {
    data->siblings = complement(data->members, mesh.root_size());
  } else {
    Modes others;
    for (int i = 0; i < mesh.axis_count(); ++i)
      if (!taken[static_cast<size_t>(i)])
        for (const MeshMode& mode : mesh.axes()[static_cast<size_t>(i)].modes)
          others.push_back(mode);
    std::sort(others.begin(), others.end(),
              [](const MeshMode& a, const MeshMode& b) { return a.stride > b.stride; });
    for (const MeshMode& mode : others) append_mode(data->siblings, mode);
  }
  data->size = size_of_modes(data->members);
  data->count = size_of_modes(data->siblings);
  data->mesh = mesh;
  data->axes = std::move(axes);
  data->number_siblings();
  data->set_key();
  return Group(std::move(data));
}

Group Group::of_ranks(std::string name, std::vector<int32_t> ranks) {
  if (ranks.empty()) throw_bad_input("group '{}' has no rank", name);
  auto data = std::make_shared<Data>();
  data->by_rank.resize(ranks.size());
  std::iota(data->by_rank.begin(), data->by_rank.end(), 0);
  const auto rank_of = [&](int32_t at) { return ranks[static_cast<size_t>(at)]; };
  std::sort(data->by_rank.begin(), data->by_rank.end(),
            [&](int32_t a, int32_t b) { return rank_of(a) < rank_of(b); });
  if (rank_of(data->by_rank[0]) < 0)
    throw_bad_input("rank {} of group '{}' is negative", rank_of(data->by_rank[0]), name);
  for (size_t i = 1; i < ranks.size(); ++i)
    if (rank_of(data->by_rank[i]) == rank_of(data->by_rank[i - 1]))
      throw_bad_input("rank {} occurs twice in group '{}'", rank_of(data->by_rank[i]), name);
  data->name = std::move(name);
  data->size = static_cast<int64_t>(ranks.size());
  data->count = 1;
  data->list = std::move(ranks);
  data->set_key();
  return Group(std::move(data));
}

Group Group::world(int64_t ranks) {
  const Group all = of_axes(Mesh::make({{"world", ranks}}), {0});
  return all;
}

const std::string& Group::name() const { return data_->name; }
const std::string& Group::key() const { return data_->key; }
const std::vector<int>& Group::axes() const { return data_->axes; }
const Mesh& Group::mesh() const { return data_->mesh; }

Lanes Group::lanes() const {
  if (!data_->list.empty()) return Lanes::of(data_->list);
  const Mesh& mesh = data_->mesh;
  if (count_ * size_ == mesh.root_size() && !mesh.is_mapped())
    return Lanes::range(mesh.rank_of_position(0), mesh.rank_of_position(0) + mesh.root_size());
  std::vector<int32_t> ranks;
  ranks.reserve(static_cast<size_t>(count_ * size_));
  for (int64_t s = 0; s < count_; ++s)
    for (int64_t i = 0; i < size_; ++i) ranks.push_back(data_->plain_member(s, i));
  return Lanes::of(std::move(ranks));
}

int64_t Group::index_of(int64_t rank) const {
  const Data& data = *data_;
  if (!data.list.empty()) {
    const auto found = std::lower_bound(
        data.by_rank.begin(), data.by_rank.end(), rank,
        [&](int32_t at, int64_t wanted) { return data.list[static_cast<size_t>(at)] < wanted; });
    if (found == data.by_rank.end() || data.list[static_cast<size_t>(*found)] != rank) return -1;
    return *found;
  }
  const auto position = data.mesh.position_of(rank);
  if (count_ == 0 || !position) return -1;
  const int64_t index = index_at(data.members, *position);
  const int64_t sibling = index_at(data.siblings, *position);
  const int64_t back =
      data.mesh.offset() + position_at(data.members, index) + position_at(data.siblings, sibling);
  return back == *position ? index : -1;
}

int64_t Group::sibling_of(int64_t rank) const {
  if (index_of(rank) < 0) return -1;
  if (!data_->list.empty()) return 0;
  const int64_t plain = index_at(data_->siblings, *data_->mesh.position_of(rank));
  return data_->place.empty() ? plain : data_->place[static_cast<size_t>(plain)];
}

int32_t Group::member(int64_t sibling, int64_t index) const {
  SP_CHECK(sibling >= 0 && sibling < count_ && index >= 0 && index < size_,
           "member {} of sibling {} of group {}", index, sibling, name());
  if (!data_->list.empty()) return data_->list[static_cast<size_t>(index)];
  const int64_t plain = data_->order.empty() ? sibling : data_->order[static_cast<size_t>(sibling)];
  return data_->plain_member(plain, index);
}

std::vector<int32_t> Group::members(int64_t sibling) const {
  SP_CHECK(sibling >= 0 && sibling < count_, "sibling {} of group {}", sibling, name());
  if (!data_->list.empty()) return data_->list;
  const int64_t plain = data_->order.empty() ? sibling : data_->order[static_cast<size_t>(sibling)];
  std::vector<int64_t> positions = {data_->mesh.offset() + position_at(data_->siblings, plain)};
  for (const MeshMode& mode : data_->members) {
    std::vector<int64_t> finer;
    finer.reserve(positions.size() * static_cast<size_t>(mode.size));
    for (int64_t position : positions)
      for (int64_t i = 0; i < mode.size; ++i) finer.push_back(position + i * mode.stride);
    positions = std::move(finer);
  }
  std::vector<int32_t> members;
  members.reserve(positions.size());
  for (int64_t position : positions) members.push_back(data_->mesh.rank_of_position(position));
  return members;
}

bool Group::operator==(const Group& other) const {
  return data_ == other.data_ || (size_ == other.size_ && key() == other.key());
}

std::string to_string(const Group& group) {
  constexpr int64_t kMembers = 16, kSiblings = 8;
  std::string out = group.name();
  for (int64_t s = 0; s < std::min(group.count(), kSiblings); ++s) {
    std::vector<int32_t> shown;
    for (int64_t i = 0; i < std::min(group.size(), kMembers); ++i)
      shown.push_back(group.member(s, i));
    out += fmt::format(" [{}{}]", join_text(shown, " "), group.size() > kMembers ? " ..." : "");
  }
  if (group.count() > kSiblings) out += " ...";
  return out;
}

}  // namespace shardproof
