// select_ranks: the ranks of a selector: `all`, `3`, `0-3`, `0 2 5`, `pp=1`, `pp=1 dp=0`, `pp=0-2`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/localtensor/mesh/mesh.h"

namespace shardproof {

using NamedMeshes = std::vector<std::pair<std::string, Mesh>>;

// Returns the ranks of one selector. An axis of several meshes selects ranks on each of them.
// Throws Error(bad_input) for no rank, a rank given twice or outside the world, or an unknown axis.
Lanes select_ranks(const std::string& text, const NamedMeshes& meshes, int64_t world);

}  // namespace shardproof
