// Implements select_entries.h.
#include "shardproof/scenarios/load/select_entries.h"

namespace shardproof {

std::vector<SelectedEntry> select_entries(const JsonReader& object, const NamedMeshes& meshes,
                                          int64_t world) {
  std::vector<SelectedEntry> out;
  std::optional<size_t> rest;
  Lanes taken;
  for (const auto& [key, reader] :
       object.members("an object of rank selectors such as {\"all\": ...}")) {
    if (key == "rest") {
      rest = out.size();
      out.push_back({{}, reader});
      continue;
    }
    const Lanes lanes = reader.inside([&, &key = key] { return select_ranks(key, meshes, world); });
    const Lanes twice = taken.intersect(lanes);
    if (!twice.empty()) reader.refuse(fmt::format("rank {} is in two selectors", twice[0]));
    taken = taken.unite(lanes);
    out.push_back({lanes, reader});
  }
  if (!rest) return out;
  out[*rest].lanes = Lanes::range(0, world).minus(taken);
  if (out[*rest].lanes.empty())
    out[*rest].reader.refuse("\"rest\" selects no rank: the other selectors have all");
  return out;
}

}  // namespace shardproof
