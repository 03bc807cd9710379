// Objects whose keys are rank selectors (program/value/select_ranks.h) or `rest`.
#pragma once

#include <vector>

#include "shardproof/program/value/select_ranks.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

// Returns the entries with the ranks of their keys; `rest` means all ranks in no other key. Throws
// Error(bad_input) if a rank is in two keys, and if `rest` has no rank.
struct SelectedEntry {
  Lanes lanes;
  JsonReader reader;
};
std::vector<SelectedEntry> select_entries(const JsonReader& object, const NamedMeshes& meshes,
                                          int64_t world);

}  // namespace shardproof
