// Correct claims: lines `y = expression as placements` whose inputs lie so that the expression,
// computed on the local shards as they lie, gives a value placed as claimed. A planted error turns
// one of them into a wrong one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/line_writer.h"
#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

struct Claim {
  Lines before;                                             // redistributions of the inputs
  std::vector<std::pair<std::string, std::string>> placed;  // names that `before` binds, placements
  std::string name, expression;
  std::vector<Placement> placements;  // one an axis
};

// A random claim over the values of the draft; nothing if none fits. The lines are not added.
std::optional<Claim> draw_claim(LineWriter& writer);

}  // namespace shardproof
