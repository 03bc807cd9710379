// Implements the mesh algebra of mesh.h: slice, flatten, unflatten, concatenate, containing. All of
// them edit lists of modes (digits of positions, see mesh_data.h).
//
// Example, on "a=2, b=3, c=4" with the modes a 2:12, b 3:4, c 4:1 (size:stride):
//   flatten({b, c}, "bc")       joins 3:4 and 4:1 to 12:1, because 4 == 1 * 4
//   flatten({a, c}, "ac")       keeps the modes 2:12 and 4:1, because 12 != 1 * 4
//   unflatten("c", {x=2, y=2})  cuts 4:1, fastest first: y is 2:1, x is 2:2
//   slice({"b"})                keeps 3:4 and stands for 8 siblings; containing(5) sets the
//                               offset to 1: the position of rank 5, its digit of b set to 0
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/localtensor/mesh/mesh_data.h"

namespace shardproof {

namespace {

// Joins neighbouring modes that have one common stride; drops modes of size 1.
std::vector<MeshMode> coalesce(const std::vector<MeshMode>& modes) {
  std::vector<MeshMode> out;
  for (const MeshMode& mode : modes) {
    if (mode.size == 1) continue;
    if (!out.empty() && out.back().stride == mode.stride * mode.size)
      out.back() = {out.back().size * mode.size, mode.stride};
    else
      out.push_back(mode);
  }
  if (out.empty()) out.push_back({1, modes.empty() ? 1 : modes.back().stride});
  return out;
}

MeshAxis make_axis(std::string name, const std::vector<MeshMode>& modes) {
  MeshAxis axis{std::move(name), 1, 0, coalesce(modes)};
  for (const MeshMode& mode : axis.modes) axis.size *= mode.size;
  if (axis.modes.size() == 1) axis.stride = axis.modes[0].stride;
  return axis;
}

// Moves the fastest `size` positions from `modes` to `taken`. Returns false if a cut would fall
// between the factors of a mode (6 of 4:1 cannot be taken).
bool take_fastest(std::vector<MeshMode>& modes, int64_t size, std::vector<MeshMode>& taken) {
  while (size > 1) {
    if (modes.empty()) return false;
    MeshMode& mode = modes.back();
    if (size % mode.size == 0) {
      taken.insert(taken.begin(), mode);
      size /= mode.size;
      modes.pop_back();
    } else if (mode.size % size == 0) {
      taken.insert(taken.begin(), {size, mode.stride});
      mode = {mode.size / size, mode.stride * size};
      size = 1;
    } else {
      return false;
    }
  }
  if (taken.empty()) taken.push_back({1, modes.empty() ? 1 : modes.back().stride});
  return true;
}

// Returns the modes of all axes by stride, without those of size 1.
std::vector<MeshMode> modes_by_stride(const std::vector<MeshAxis>& axes) {
  std::vector<MeshMode> modes;
  for (const MeshAxis& axis : axes)
    for (const MeshMode& mode : axis.modes)
      if (mode.size > 1) modes.push_back(mode);
  std::sort(modes.begin(), modes.end(),
            [](const MeshMode& a, const MeshMode& b) { return a.stride < b.stride; });
  return modes;
}

// True if two axes use the same digit of the positions.
bool overlap(const std::vector<MeshAxis>& axes) {
  const std::vector<MeshMode> modes = modes_by_stride(axes);
  for (size_t i = 1; i < modes.size(); ++i)
    if (modes[i].stride < modes[i - 1].stride * modes[i - 1].size) return true;
  return false;
}

// True if the modes are digits of the positions below `count` in one mixed radix. Otherwise some
// combinations of digits belong to more positions than others. Example: of 12 positions, the modes
// 2:1 and 4:3 (size:stride) are not such digits. Positions 0 and 2 have the digits 0 and 0, but
// only position 1 has 1 and 0.
bool are_digits(const std::vector<MeshAxis>& axes, int64_t count) {
  int64_t reach = 1;
  for (const MeshMode& mode : modes_by_stride(axes)) {
    if (mode.stride % reach != 0) return false;
    reach = mode.stride * mode.size;
  }
  return count % reach == 0;
}

bool same_map(const MeshData& a, const MeshData& b) {
  if (a.root_size != b.root_size || a.first != b.first) return false;
  return a.map == b.map || (a.map && b.map && a.map->ranks == b.map->ranks);
}

std::string quoted_meshes(const std::vector<Mesh>& meshes) {
  std::vector<std::string> texts;
  for (const Mesh& mesh : meshes) texts.push_back("\"" + to_string(mesh) + "\"");
  return join_text(texts, ", ");
}

// Returns the position with the digits of `axes` set to 0.
int64_t without_axes(const std::vector<MeshAxis>& axes, int64_t position) {
  for (const MeshAxis& axis : axes)
    position -= position_on_axis(axis, coordinate_on_axis(axis, position));
  return position;
}

}  // namespace

Mesh Mesh::slice(const std::vector<std::string>& names) const {
  auto data = std::make_shared<Data>(*data_);
  data->axes.clear();
  int last = -1;
  for (const std::string& name : names) {
    const int at = axis(name);
    if (at <= last)
      throw_bad_input("slice names [{}] are not in the order of the mesh \"{}\"",
                      join_text(names, ", "), to_string(*this));
    last = at;
    data->axes.push_back(axes()[static_cast<size_t>(at)]);
  }
  Mesh result(data);
  if (result.size() != size()) data->sliced = true;
  return result;
}

Mesh Mesh::flatten(const std::vector<std::string>& names, std::string name) const {
  if (names.empty()) throw_bad_input("flatten needs an axis");
  std::vector<MeshMode> modes;
  std::vector<MeshAxis> kept = axes();
  size_t place = kept.size();
  int last = -1;
  for (const std::string& part : names) {
    const int at = axis(part);
    if (at <= last)
      throw_bad_input("flatten names [{}] are not in the order of the mesh \"{}\"",
                      join_text(names, ", "), to_string(*this));
    if (last < 0) place = static_cast<size_t>(at);
    last = at;
    for (const MeshMode& mode : axes()[static_cast<size_t>(at)].modes) modes.push_back(mode);
  }
  for (const MeshAxis& root : data_->root_axes)
    if (root.name == name && !(names.size() == 1 && names[0] == name))
      throw_bad_input("flatten cannot take the name '{}': it is an axis of the root mesh", name);
  kept[place] = make_axis(std::move(name), modes);
  std::erase_if(kept, [&](const MeshAxis& a) {
    return &a != &kept[place] && std::find(names.begin(), names.end(), a.name) != names.end();
  });
  check_axis_names(kept);
  auto data = std::make_shared<Data>(*data_);
  data->axes = std::move(kept);
  return Mesh(std::move(data));
}

Mesh Mesh::unflatten(std::string_view name,
                     const std::vector<std::pair<std::string, int64_t>>& into) const {
  const auto at = static_cast<size_t>(axis(name));
  int64_t product = 1;
  for (const auto& [part, size] : into) {
    if (size < 1) throw_bad_input("mesh axis '{}' has size {}; sizes start at 1", part, size);
    product *= size;
  }
  if (into.empty() || product != axes()[at].size)
    throw_bad_input("unflatten: the sizes multiply to {}, axis '{}' has {}", product, name,
                    axes()[at].size);
  std::vector<MeshMode> modes = axes()[at].modes;
  std::vector<MeshAxis> parts;
  for (size_t i = into.size(); i-- > 0;) {
    std::vector<MeshMode> taken;
    if (!take_fastest(modes, into[i].second, taken))
      throw_bad_input("unflatten: axis '{}' cannot be cut into a part of {}", name, into[i].second);
    parts.insert(parts.begin(), make_axis(into[i].first, taken));
  }
  auto data = std::make_shared<Data>(*data_);
  data->axes.erase(data->axes.begin() + static_cast<int64_t>(at));
  data->axes.insert(data->axes.begin() + static_cast<int64_t>(at), parts.begin(), parts.end());
  check_axis_names(data->axes);
  return Mesh(std::move(data));
}

Mesh Mesh::concatenate(const std::vector<Mesh>& parts) {
  if (parts.empty()) throw_bad_input("concatenate needs a mesh");
  auto data = std::make_shared<Data>(*parts[0].data_);
  data->axes.clear();
  for (const Mesh& part : parts) {
    if (!same_map(*data, *part.data_))
      throw_bad_input("concatenate: \"{}\" and \"{}\" have different roots", to_string(parts[0]),
                      to_string(part));
    data->axes.insert(data->axes.end(), part.axes().begin(), part.axes().end());
  }
  check_axis_names(data->axes);
  if (overlap(data->axes)) throw_bad_input("concatenate: the axes overlap");
  if (!are_digits(data->axes, data->root_size))
    throw_bad_input(
        "concatenate: the axes of {} do not cover the {} ranks of the root in groups of one size; "
        "take parts that were cut from one mesh",
        quoted_meshes(parts), data->root_size);
  Mesh result(data);
  data->sliced = true;
  data->offset = 0;
  for (const Mesh& part : parts) {
    if (part.is_sliced()) continue;
    const int64_t offset = without_axes(data->axes, part.data_->offset);
    if (!data->sliced && offset != data->offset)
      throw_bad_input("concatenate: the parts lie in different siblings");
    data->sliced = false;
    data->offset = offset;
  }
  if (result.size() == result.root_size()) data->sliced = false;
  return result;
}

Mesh Mesh::containing(int64_t rank) const {
  const auto position = position_of(rank);
  if (!position || !coordinate_of(rank))
    throw_bad_input("rank {} is not on the mesh \"{}\"", rank, to_string(*this));
  auto data = std::make_shared<Data>(*data_);
  data->offset = without_axes(axes(), *position);
  data->sliced = false;
  return Mesh(std::move(data));
}

}  // namespace shardproof
