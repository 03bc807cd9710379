// Implements LoadContext of load_context.h.
#include "shardproof/scenarios/load/load_context.h"

#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace shardproof {
namespace {

// Returns the axes of a name such as "tp+dp" in mesh order, "dp+tp", or nullopt if the name has
// another form.
std::optional<std::string> in_mesh_order(const std::string& name, const Mesh& mesh) {
  std::set<std::string> axes;
  std::istringstream in(name);
  for (std::string axis; std::getline(in, axis, '+');)
    if (!mesh.find_axis(axis) || !axes.insert(axis).second) return std::nullopt;
  std::string ordered;
  for (const MeshAxis& axis : mesh.axes())
    if (axes.contains(axis.name)) ordered += (ordered.empty() ? "" : "+") + axis.name;
  if (ordered.empty() || ordered.size() != name.size()) return std::nullopt;
  return ordered;
}

}  // namespace

const Mesh& LoadContext::mesh(const std::string& name) const {
  NearestName nearest(name);
  for (const auto& [known, mesh] : meshes) {
    if (known == name) return mesh;
    nearest.offer(known);
  }
  throw_bad_input("unknown mesh {}{}", quoted_json(name), nearest.hint());
}

Lanes LoadContext::ranks(const JsonReader& selector) const {
  return selector.inside([&] {
    return select_ranks(selector.text("ranks such as \"0 1\", \"0-3\" or \"pp=1\""), meshes, world);
  });
}

std::string LoadContext::group_name(const std::string& name) const {
  if (name == "world") return name;
  NearestName nearest(name);
  for (const auto& [group, ranks] : groups) {
    if (group == name) return name;
    nearest.offer(group);
  }
  for (const auto& [key, mesh] : meshes) {
    if (const std::optional<std::string> found = in_mesh_order(name, mesh)) return *found;
    for (const MeshAxis& axis : mesh.axes()) nearest.offer(axis.name);
  }
  throw_bad_input("expected an axis, axes such as dp+tp, world or a name of \"groups\", found {}{}",
                  quoted_json(name), nearest.hint());
}

}  // namespace shardproof
