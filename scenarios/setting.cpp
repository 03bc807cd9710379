#include "shardproof/scenarios/detail/setting.h"

#include <sstream>

namespace shardproof {

const Mesh& Setting::mesh(const std::string& name) const {
  NearestName nearest(name);
  for (const auto& [known, mesh] : meshes) {
    if (known == name) return mesh;
    nearest.offer(known);
  }
  throw_bad_input("unknown mesh \"{}\"{}", name, nearest.hint());
}

Lanes Setting::ranks(const JsonReader& selector) const {
  return selector.inside([&] { return select_ranks(selector.text(), meshes, world); });
}

void Setting::check_group(const std::string& name) const {
  if (name == "world") return;
  NearestName nearest(name);
  for (const auto& [group, ranks] : groups) {
    if (group == name) return;
    nearest.offer(group);
  }
  for (const auto& [key, mesh] : meshes) {
    bool known = true;
    std::istringstream in(name);
    for (std::string axis; std::getline(in, axis, '+');) known = known && mesh.find_axis(axis);
    if (known) return;
    for (const MeshAxis& axis : mesh.axes()) nearest.offer(axis.name);
  }
  throw_bad_input("\"{}\" is neither an axis, axes such as dp+tp, world nor a group{}", name,
                  nearest.hint());
}

}  // namespace shardproof
