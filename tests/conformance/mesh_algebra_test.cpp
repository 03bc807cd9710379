// Compares slice, flatten, unflatten, concatenate and groups of meshes with recorded results of
// PyTorch.
#include <algorithm>
#include <map>

#include "shardproof/localtensor/mesh/process_group.h"
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance::mesh_algebra_test {
namespace {

void flatten_ranks(const Json& nested, std::vector<int32_t>& out) {
  if (!nested.is_array()) return out.push_back(nested.get<int32_t>());
  for (const Json& part : nested) flatten_ranks(part, out);
}

std::vector<std::pair<std::string, int64_t>> named(const Json& sizes, const Json& names) {
  std::vector<std::pair<std::string, int64_t>> axes;
  if (names.is_array() && names.size() != sizes.size())
    throw_bad_input("{} names for {} axes", names.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.emplace_back(names.is_array() ? names[i].get<std::string>() : "dim" + std::to_string(i),
                      sizes[i].get<int64_t>());
  return axes;
}

// Runs the steps of one case. PyTorch registers flattened axes in the root mesh by name. Meshes are
// values here, so this driver has that table.
class Program {
 public:
  void run(const Json& program) {
    for (const Json& step : program) {
      result_ = Json();
      const std::string op = step["op"];
      Mesh made;
      if (op == "init")
        made = Mesh::make(named(step["shape"], step["names"]));
      else if (op == "explicit")
        made = explicit_mesh(step);
      else if (op == "slice")
        made = slice(of(step), step["names"].get<std::vector<std::string>>());
      else if (op == "flatten")
        made = flatten(of(step), step);
      else if (op == "unflatten")
        made = unflatten(of(step), step);
      else if (op == "concat")
        made = concatenate(step);
      else {
        record_groups(of(step), step);
        continue;
      }
      mesh_ = made;
      meshes_[step.value("as", op == "init" || op == "explicit" ? "m" : "")] = made;
    }
  }

  Json seen_by(int64_t rank) const {
    if (!result_.is_null())
      return result_.contains("by_rank") ? result_["by_rank"][std::to_string(rank)] : result_;
    Json out;
    const Dims shape = mesh_.shape();
    out["shape"] = std::vector<int64_t>(shape.begin(), shape.end());
    for (const MeshAxis& axis : mesh_.axes()) out["names"].push_back(axis.name);
    const auto coordinate = mesh_.coordinate_of(rank);
    if (!coordinate) {
      out["coordinate"] = Json();
      return out;
    }
    out["coordinate"] = std::vector<int64_t>(coordinate->begin(), coordinate->end());
    const Mesh sibling = mesh_.containing(rank);
    std::vector<int32_t> ranks;
    for (int64_t i = 0; i < sibling.size(); ++i)
      ranks.push_back(sibling.rank_at(unravel(i, sibling.shape())));
    out["ranks"] = ranks;
    out["groups"] = Json::array();
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      const Group group = Group::of_axes(mesh_, {axis});
      const Group of_sibling = Group::of_axes(sibling, {axis});
      EXPECT_EQ(group.members(group.sibling_of(rank)),
                of_sibling.members(of_sibling.sibling_of(rank)));
      EXPECT_EQ(group.member(group.sibling_of(rank), group.index_of(rank)), rank);
      out["groups"].push_back(group.members(group.sibling_of(rank)));
    }
    return out;
  }

 private:
  const Mesh& of(const Json& step) const { return meshes_.at(step["of"].get<std::string>()); }

  Mesh explicit_mesh(const Json& step) {
    std::vector<int64_t> sizes;
    for (const Json* part = &step["ranks"]; part->is_array(); part = &(*part)[0])
      sizes.push_back(static_cast<int64_t>(part->size()));
    std::vector<int32_t> ranks;
    flatten_ranks(step["ranks"], ranks);
    return Mesh::make(named(Json(sizes), step["names"]), ranks);
  }

  // Returns the mesh with that axis if it was flattened before. Its own axes may be flattened ones
  // too.
  Mesh with_axis(const Mesh& mesh, const std::string& name) const {
    if (mesh.find_axis(name) || !flattened_.contains(name)) return mesh;
    Mesh made = mesh;
    for (const std::string& part : flattened_.at(name)) made = with_axis(made, part);
    return made.flatten(flattened_.at(name), name);
  }

  Mesh slice(Mesh mesh, const std::vector<std::string>& names) {
    for (const std::string& name : names) mesh = with_axis(mesh, name);
    return mesh.slice(names);
  }

  Mesh flatten(const Mesh& mesh, const Json& step) {
    std::vector<std::string> names;
    std::string joined;
    for (const MeshAxis& axis : mesh.axes()) {
      names.push_back(axis.name);
      joined += (joined.empty() ? "" : "_") + axis.name;
    }
    const std::string name = step["name"].is_string() ? step["name"].get<std::string>() : joined;
    const Mesh made = mesh.flatten(names, name);
    flattened_[name] = names;
    return made;
  }

  Mesh unflatten(const Mesh& mesh, const Json& step) {
    const Json& axis = step["axis"];
    const std::string name = axis.is_string()
                                 ? axis.get<std::string>()
                                 : mesh.axes()[static_cast<size_t>(normalize_dim(
                                                   axis.get<int64_t>(), mesh.axis_count()))]
                                       .name;
    return mesh.unflatten(name, named(step["sizes"], step["names"]));
  }

  Mesh concatenate(const Json& step) {
    std::vector<Mesh> parts;
    for (const Json& part : step["of"]) parts.push_back(meshes_.at(part.get<std::string>()));
    return Mesh::concatenate(parts);
  }

  void record_groups(Mesh mesh, const Json& step) {
    int axis = 0;
    const std::string key = step["op"] == "all_submeshes" ? "name" : "axis";
    if (step[key].is_null() && mesh.axis_count() > 1) throw_bad_input("which axis?");
    if (step[key].is_number()) axis = step[key].get<int>();
    if (step[key].is_string()) {
      const std::string name = step[key];
      mesh = with_axis(mesh, name);
      axis = mesh.axis(name);
    }
    const Group group = Group::of_axes(mesh, {axis});
    if (step["op"] == "all_submeshes") {
      for (int64_t i = 0; i < group.count(); ++i) result_["submeshes"].push_back(group.members(i));
      return;
    }
    for (int32_t i = 0, n = static_cast<int32_t>(mesh.root_size()); i < n; ++i) {
      const int32_t rank = mesh.rank_of_position(i);
      Json& out = result_["by_rank"][std::to_string(rank)];
      if (step["op"] == "get_local_rank")
        out["local_rank"] = group.index_of(rank);
      else
        out["group_in_order"] = group.members(group.sibling_of(rank));
    }
  }

  std::map<std::string, Mesh> meshes_;
  std::map<std::string, std::vector<std::string>> flattened_;
  Mesh mesh_;
  Json result_;
};

const std::map<std::string, std::string>& on_purpose() {
  static const std::map<std::string, std::string> reasons = {
      {"MA-00607af2",
       "meshes are values: a flattened name is not kept in the root, so it cannot clash"},
      {"MA-3d03c15f", "a mesh without names has names dim0, dim1, so it can be unflattened"},
      {"MA-70f0994b",
       "a rank list with a rank twice is refused for every rank, not only for that one"},
      {"MA-a92e2e09", "a mesh has no device type"},
  };
  return reasons;
}

void check_seen(const Json& row, const Json& want, const Json& seen, const std::string& rank) {
  const std::string where = row["id"].get<std::string>() + " rank " + rank;
  for (const char* key : {"shape", "coordinate", "local_rank", "submeshes", "group_in_order"})
    if (want.contains(key)) {
      EXPECT_EQ(seen.value(key, Json()), want[key]) << where << " " << key;
    }
  if (want.contains("names") && !want["names"].is_null()) {
    EXPECT_EQ(seen.value("names", Json()), want["names"]) << where;
  }
  if (!seen.contains("ranks")) return;
  if (want.contains("ranks")) {
    std::vector<int32_t> ranks;
    flatten_ranks(want["ranks"], ranks);
    EXPECT_EQ(seen["ranks"].get<std::vector<int32_t>>(), ranks) << where;
  }
  if (!want.contains("groups")) return;
  for (size_t axis = 0; axis < want["groups"].size(); ++axis) {
    // PyTorch sorts members by rank. Here they are in mesh order, as in its fix for rank lists.
    auto ours = seen["groups"][axis].get<std::vector<int32_t>>();
    std::sort(ours.begin(), ours.end());
    EXPECT_EQ(ours, want["groups"][axis].get<std::vector<int32_t>>()) << where;
  }
}

TEST(MeshAlgebra, RecordedPrograms) {
  Tally tally("mesh_algebra, programs");
  for (const Json& row : read_cases("torch/mesh_algebra.jsonl")) {
    const std::string id = row["id"];
    if (!id.starts_with("MA")) continue;
    if (on_purpose().contains(id)) tally.differs(id, on_purpose().at(id));
    Program program;
    tally.ran();
    bool refused = false;
    try {
      program.run(row["program"]);
    } catch (const Error& error) {
      refused = true;
    }
    if (on_purpose().contains(id)) {
      EXPECT_EQ(refused, !row.contains("result")) << id;
      continue;
    }
    EXPECT_EQ(refused, row.contains("result")) << id << ": " << row["program"];
    if (refused || !row.contains("per_rank")) continue;
    for (const auto& [rank, want] : row["per_rank"].items())
      check_seen(row, want, program.seen_by(std::stoll(rank)), rank);
    if (row.contains("differs"))
      for (const Json& differing : row["differs"]) {
        const Json seen = program.seen_by(differing["rank"]);
        EXPECT_EQ(seen.value("groups", Json()), differing["model"]["groups"]) << id;
      }
  }
}

// Meshes over ranks in any order: coordinates and shards follow the list. PyTorch with
// preserve_rank_order false gathers values out of order; here they must be in order.
TEST(MeshAlgebra, RankLists) {
  Tally tally("mesh_algebra, rank lists");
  for (const Json& row : read_cases("torch/mesh_algebra.jsonl")) {
    if (!row["id"].get<std::string>().starts_with("MO")) continue;
    tally.ran();
    std::vector<int32_t> ranks;
    flatten_ranks(row["mesh_ranks"], ranks);
    std::vector<int64_t> sizes;
    for (const Json* part = &row["mesh_ranks"]; part->is_array(); part = &(*part)[0])
      sizes.push_back(static_cast<int64_t>(part->size()));
    const Mesh mesh = Mesh::make(named(Json(sizes), Json()), ranks);
    const Spec spec(mesh, placements_of(row["placements"]), {row["size"].get<int64_t>()},
                    DType::f32);
    for (const auto& [key, want] : row["per_rank"].items()) {
      const int64_t rank = std::stoll(key);
      const auto coordinate = mesh.coordinate_of(rank);
      if (want["coordinate"].is_null()) {
        EXPECT_FALSE(coordinate.has_value()) << row["id"];
        continue;
      }
      EXPECT_EQ(*coordinate, dims_of(want["coordinate"])) << row["id"];
      EXPECT_EQ(spec.local_shape(rank), dims_of(want["computed"][0])) << row["id"];
      EXPECT_EQ(spec.start(rank), dims_of(want["computed"][1])) << row["id"];
      EXPECT_EQ(owned_indices(spec, *coordinate),
                want["cut_locally"]["local"].get<std::vector<int64_t>>())
          << row["id"];
      for (int axis = 0; axis < mesh.axis_count(); ++axis)
        EXPECT_EQ(Group::of_axes(mesh, {axis}).index_of(rank), (*coordinate)[axis]);
    }
  }
}

}  // namespace
}  // namespace shardproof::conformance::mesh_algebra_test
