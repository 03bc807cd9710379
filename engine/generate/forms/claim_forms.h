// Claim: a correct line `y = expression as placements`. Its inputs are placed so that the
// expression, computed on each rank's shards, gives a value with the claimed placements. A planted
// error turns one claim into a wrong one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/line_writer.h"
#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

struct Claim {
  Lines before;                                             // redistributions of the inputs
  std::vector<std::pair<std::string, std::string>> placed;  // names that `before` binds, placements
  std::string name, expression;
  std::vector<Placement> placements;  // one for each axis
};

// Returns a random claim over the values of the draft; nullopt if no value fits. Does not add its
// lines.
std::optional<Claim> draw_claim(LineWriter& writer);

}  // namespace shardproof
