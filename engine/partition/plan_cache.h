// PlanCache: the plans of all redistributions of one partitioning, each computed once. Internal to
// the engine.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "shardproof/engine/partition/partition.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A step of a plan, ready to be emitted: the emission sets the values and the origin of its calls.
struct PlannedStep {
  std::shared_ptr<const PlanStep> step;
  Price price;                  // in comparisons of placements
  std::vector<CallItem> calls;  // of a step that is neither local nor a transfer
};

// A plan, and its price in comparisons of placements.
struct PricedPlan {
  Spec from, to;
  std::shared_ptr<const PlannerResult> result;
  Price price;
  std::vector<PlannedStep> steps = {};  // empty until the plan is first emitted
  const Plan& plan() const { return result->plan; }
};

class PlanCache {
 public:
  explicit PlanCache(const PartitionOptions& options) : options_(options) {}

  // Returns the cheapest plan. Throws Error if there is none. The reference stays valid.
  const PricedPlan& plan(const Spec& from, const Spec& to) { return planned(from, to); }
  // Returns the cheapest plan, or null if its price is more than `at_most`.
  const PricedPlan* plan_within(const Spec& from, const Spec& to,
                                const std::optional<Price>& at_most);
  // Returns a lower bound of the primary price of all plans. Takes far less time than a plan: a
  // search over placements has thousands of pairs that cost more than the best choice so far.
  double least_primary(const Spec& from, const Spec& to);
  // Returns the cheapest plan that keeps to a peak limit of its own. It is not stored.
  Plan plan_with_limit(const Spec& from, const Spec& to, int64_t peak_limit) const;
  // Returns the steps of the cheapest plan, which all emissions of that plan share.
  const std::vector<PlannedStep>& steps(const Spec& from, const Spec& to);
  // `price`: that of the plan in comparisons of placements, if it is known.
  std::vector<PlannedStep> steps_of(const Plan& plan,
                                    const std::optional<Price>& price = std::nullopt) const;

 private:
  PricedPlan& planned(const Spec& from, const Spec& to);
  PlannerOptions planner_options() const;
  const PriceFunction& choice_price() const {
    return options_.choice_price ? options_.choice_price : options_.price;
  }
  PricedPlan* find(const Spec& from, const Spec& to);
  PricedPlan& store(const Spec& from, const Spec& to, std::shared_ptr<const PlannerResult> result);

  const PartitionOptions& options_;
  std::unordered_multimap<uint64_t, PricedPlan> plans_;  // by the hashes of both specs
};

}  // namespace shardproof
