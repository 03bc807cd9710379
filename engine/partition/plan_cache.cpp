// Implements plan_cache.h by a linear search: a program has few different pairs of specs.
#include "shardproof/engine/partition/plan_cache.h"

namespace shardproof {

const PricedPlan* PlanCache::find(const Spec& from, const Spec& to) const {
  for (const auto& [key, known] : plans_)
    if (key.first == from && key.second == to) return &known;
  return nullptr;
}

const PricedPlan& PlanCache::store(const Spec& from, const Spec& to, Plan plan) {
  const Price price = price_of(plan, choice_price());
  plans_.emplace_back(std::make_pair(from, to), PricedPlan{std::move(plan), price});
  return plans_.back().second;
}

const PricedPlan& PlanCache::plan(const Spec& from, const Spec& to) {
  if (const PricedPlan* known = find(from, to)) return *known;
  PlannerOptions options;
  options.price = options_.price;
  return store(from, to, plan_redistribution(from, to, options).plan);
}

// A search that gave up is not stored: another limit may have a result. If placements are compared
// by another price than plans, the limit does not bound the search.
const PricedPlan* PlanCache::plan_within(const Spec& from, const Spec& to,
                                         const std::optional<Price>& at_most) {
  const PricedPlan* known = find(from, to);
  if (!known && at_most && !options_.choice_price) {
    PlannerOptions options;
    options.price = options_.price;
    options.at_most = at_most;
    PlannerResult result = plan_redistribution(from, to, options);
    if (result.gave_up) return nullptr;
    known = &store(from, to, std::move(result.plan));
  }
  if (!known) known = &plan(from, to);
  return at_most && *at_most < known->price ? nullptr : known;
}

}  // namespace shardproof
