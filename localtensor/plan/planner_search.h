// The search of the planner: A* over placement states (search_states.h), with a price that has a
// lower bound or without. Internal to the planner.
#pragma once

#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

struct FoundPath {
  std::vector<std::pair<PlacementState, PlacementMove>> path;  // each move with its first state
  int64_t states = 0;                                          // settled
  bool reached = false;                                        // true if the path leads to the goal
  bool gave_up = false;  // true if `at_most` cut off some path
  // No path costs less than this, in units of Price::primary. Set if the search was interrupted.
  std::optional<double> at_least;
};

// Returns the cheapest path. If the search ends at max_states, the path costs no more than a greedy
// one.
FoundPath search_path(PlacementStates& states, const Spec& from, const PlannerOptions& options);

// Returns the smallest peak limit that some path fulfils, with steps in as many pieces as help.
// Returns `at_most` if no smaller limit is found.
int64_t smallest_peak(PlacementStates& states, const Spec& from, PlannerOptions options,
                      int64_t at_most);

// True if the price is price_without_topology, which has lower bounds.
bool has_lower_bounds(const PriceFunction& price);

}  // namespace shardproof
