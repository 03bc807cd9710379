// The planner: the cheapest Plan between two specs, by search over placement states. Right for
// every pair of specs on one mesh: uneven, empty, strided, ordered, explicit sizes, partials of
// every operator; and across meshes by one transfer. Pure algebra: what a step costs is handed in.
//
// Only axes that have to move take part: one that is placed alike on both sides, and whose ranks
// own the same before and after whatever the others do, stays as it is, even where slicing it for a
// while would save bytes. So a plan makes no call over an axis that was not written.
#pragma once

#include <optional>

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

struct PlannerOptions {
  PriceFunction price = price_by_bytes;
  int64_t max_states = 20000;  // search bound; beyond it the best plan found so far is used
  // Only plans that cost no more are of interest: the search gives up as soon as there can be none.
  std::optional<Price> at_most;
};

struct PlannerResult {
  Plan plan;
  Price price;
  int64_t states = 0;       // settled by the search: reports say "optimal among N states"
  Price gather_then_slice;  // what the naive plan would cost
  bool gave_up = false;     // every plan costs more than `at_most`; `plan` is the naive one then
};

// Throws Error(bad_input) when no plan exists: shapes or dtypes differ, or a P turns into another
// P.
PlannerResult plan_redistribution(const Spec& from, const Spec& to,
                                  const PlannerOptions& options = {});
// The yardstick: all to R axis by axis, then slice.
Plan gather_then_slice(const Spec& from, const Spec& to);

}  // namespace shardproof
