// Text of what differs by rank: numbers that each rank has its own of, and conditions that some
// ranks meet. Axes are used where they say it, else numbers of ranks.
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

// Returns a condition that, of the ranks `all`, those of `some` meet: "index(tp) == 1",
// "rank >= 4", "rank == 0 or rank == 5".
std::string condition_text(const Lanes& some, const Lanes& all, const NamedMeshes& meshes);

}  // namespace shardproof
