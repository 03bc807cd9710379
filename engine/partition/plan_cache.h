// PlanCache: the plans of all redistributions of one partitioning, each computed once. Internal to
// the engine.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "shardproof/engine/partition/partition.h"
#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

// A plan, and its price in comparisons of placements.
struct PricedPlan {
  Spec from, to;
  std::shared_ptr<const PlannerResult> result;
  Price price;
  const Plan& plan() const { return result->plan; }
};

class PlanCache {
 public:
  explicit PlanCache(const PartitionOptions& options) : options_(options) {}

  // Returns the cheapest plan. Throws Error if there is none. The reference stays valid.
  const PricedPlan& plan(const Spec& from, const Spec& to);
  // Returns the cheapest plan, or null if its price is more than `at_most`.
  const PricedPlan* plan_within(const Spec& from, const Spec& to,
                                const std::optional<Price>& at_most);
  // Returns a lower bound of the primary price of all plans. Takes far less time than a plan: a
  // search over placements has thousands of pairs that cost more than the best choice so far.
  double least_primary(const Spec& from, const Spec& to) const;
  // Returns the cheapest plan that keeps to a peak limit of its own. It is not stored.
  Plan plan_with_limit(const Spec& from, const Spec& to, int64_t peak_limit) const;
  // Returns the price of a step in comparisons of placements.
  Price price_of_step(const PlanStep& step) const { return choice_price()(step); }

 private:
  PlannerOptions planner_options() const;
  const PriceFunction& choice_price() const {
    return options_.choice_price ? options_.choice_price : options_.price;
  }
  const PricedPlan* find(const Spec& from, const Spec& to) const;
  const PricedPlan& store(const Spec& from, const Spec& to,
                          std::shared_ptr<const PlannerResult> result);

  const PartitionOptions& options_;
  std::unordered_multimap<uint64_t, PricedPlan> plans_;  // by the hashes of both specs
};

}  // namespace shardproof
