// path_at_bound: a path from the start to the goal at a price near that of the lower bound. If it
// costs no more than the bound, it is optimal, and no state has to be expanded. Internal to the
// planner.
#pragma once

#include <functional>

#include "shardproof/localtensor/plan/search_lower_bound.h"

namespace shardproof {

// Returns the price of a move, in units of the bound.
using MovePrice = std::function<ExactCost(const PlacementState&, const PlacementMove&)>;

// Returns the moves that the bound of the start counts, with digits for the axes that move to spare
// ones. Their price may exceed the bound, the dims may have too few digits, or a state may have no
// Spec. Then returns the cheapest of up to 4^axes other paths. Empty if none is found. The moves
// are legal.
std::vector<PlacementMove> path_at_bound(PlacementStates& states, ShuffleBound& bound,
                                         const MovePrice& price);

}  // namespace shardproof
