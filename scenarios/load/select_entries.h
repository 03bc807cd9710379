// Keys of an object as rank selectors (program/value/select_ranks.h) and `rest`.
#pragma once

#include <vector>

#include "shardproof/program/value/select_ranks.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

// The keys of an object as selectors, `rest` being what no other takes. Throws when two take one
// rank.
struct SelectedEntry {
  Lanes lanes;
  JsonReader reader;
};
std::vector<SelectedEntry> select_entries(const JsonReader& object, const NamedMeshes& meshes,
                                          int64_t world);

}  // namespace shardproof
