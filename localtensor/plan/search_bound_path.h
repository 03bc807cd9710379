// path_at_bound: a path from the start to the goal at the price of the lower bound. Such a path is
// optimal, and no state has to be expanded. Internal to the planner.
#pragma once

#include "shardproof/localtensor/plan/search_lower_bound.h"

namespace shardproof {

// Returns the moves that the bound of the start counts, with digits for the axes that move aside.
// Returns an empty list if none are found: the dims may have too few digits, or no Spec describes a
// state. The moves are legal; their price may exceed the bound.
std::vector<PlacementMove> path_at_bound(PlacementStates& states, ShuffleBound& bound);

}  // namespace shardproof
