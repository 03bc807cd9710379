// Rank selectors: `all`, `3`, `0-3`, `0 2 5`, `pp=1`, `pp=1 dp=0`, `pp=0-2`, `rest`.
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/detail/let_table.h"

namespace shardproof {

// One selector but `rest`. An axis that stands on several meshes selects on each of them. Throws
// Error(bad_input): no rank, a rank outside the world, an unknown axis.
Lanes select_ranks(const std::string& text, const NamedMeshes& meshes, int64_t world);

// The keys of an object as selectors, `rest` being what no other takes. Throws when two take one
// rank.
struct SelectedEntry {
  Lanes lanes;
  JsonReader reader;
};
std::vector<SelectedEntry> select_entries(const JsonReader& object, const NamedMeshes& meshes,
                                          int64_t world);

}  // namespace shardproof
