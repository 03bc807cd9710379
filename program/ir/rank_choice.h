// Texts that differ by rank: numbers with one value for each rank, and conditions that hold on some
// ranks. They use axes if axes determine the text, else numbers of ranks.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/program/value/select_ranks.h"

namespace shardproof {

// Returns an expression that is texts[i] on the rank at position i: "rank", "index(tp)",
// "[0, 4][index(dp)]", "[1, 5, 2][rank - 4]". Equal texts are returned as they are.
std::string choice_text(const Lanes& lanes, const std::vector<std::string>& texts,
                        const NamedMeshes& meshes);

// Returns a condition that holds, among the ranks `all`, exactly on those of `some`: "index(tp) ==
// 1", "rank >= 4", "rank == 0 or rank == 5".
std::string condition_text(const Lanes& some, const Lanes& all, const NamedMeshes& meshes);

}  // namespace shardproof
