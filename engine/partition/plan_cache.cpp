// Implements plan_cache.h by a linear search: a program has few different pairs of specs.
#include "shardproof/engine/partition/plan_cache.h"

namespace shardproof {

const PlannerResult& PlanCache::plan(const Spec& from, const Spec& to) {
  for (const auto& [key, known] : plans_)
    if (key.first == from && key.second == to) return known;
  PlannerOptions options;
  options.price = price_;
  plans_.emplace_back(std::make_pair(from, to), plan_redistribution(from, to, options));
  return plans_.back().second;
}

// A search that gave up is not stored: another limit may have a result.
const PlannerResult* PlanCache::plan_within(const Spec& from, const Spec& to,
                                            const std::optional<Price>& at_most) {
  if (!at_most) return &plan(from, to);
  for (const auto& [key, known] : plans_)
    if (key.first == from && key.second == to) return &known;
  PlannerOptions options;
  options.price = price_;
  options.at_most = at_most;
  PlannerResult result = plan_redistribution(from, to, options);
  if (result.gave_up) return nullptr;
  plans_.emplace_back(std::make_pair(from, to), std::move(result));
  return &plans_.back().second;
}

}  // namespace shardproof
