// PlanCache: the plans of all redistributions of one partitioning, each computed once. Internal to
// the engine.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

class PlanCache {
 public:
  explicit PlanCache(PriceFunction price) : price_(std::move(price)) {}

  // Returns the cheapest plan. Throws Error if there is none. The reference stays valid.
  const PlannerResult& plan(const Spec& from, const Spec& to);
  // Returns the cheapest plan, or null if every plan costs more than `at_most`.
  const PlannerResult* plan_within(const Spec& from, const Spec& to,
                                   const std::optional<Price>& at_most);

 private:
  PriceFunction price_;
  std::deque<std::pair<std::pair<Spec, Spec>, PlannerResult>> plans_;
};

}  // namespace shardproof
