// The price of a redistribution on a machine: the time that a cost model gives to the calls of its
// steps. The planner minimises it (localtensor/plan/planner.h).
#pragma once

#include <memory>

#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// Returns the time of the calls of a step, one after another, in the group that takes longest. A
// piece of a transfer takes as long as the messages that the busiest rank sends, or receives, one
// after another.
Duration time_of_calls(const PlanStep& step, const CostModel& cost);
// Returns the planner's price on a machine: seconds, then calls, then peak bytes.
PriceFunction price_by_time(std::shared_ptr<const CostModel> cost);

}  // namespace shardproof
