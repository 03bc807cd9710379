// Implements select_entries.h.
#include "shardproof/scenarios/load/select_entries.h"

namespace shardproof {
namespace {

// Returns the JSON pointer of the entry that selects the rank.
std::string pointer_of(int64_t rank, const std::vector<SelectedEntry>& entries) {
  for (const SelectedEntry& entry : entries)
    if (entry.lanes.contains(rank)) return entry.reader.path();
  return "";
}

}  // namespace

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
    if (!twice.empty())
      reader.refuse(fmt::format("expected each rank in one selector, found rank {} in {} too",
                                twice[0], pointer_of(twice[0], out)));
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
