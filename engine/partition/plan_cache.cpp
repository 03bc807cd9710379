// Implements plan_cache.h. Plans without a topology are shared by all partitionings
// (known_plans.h).
#include "shardproof/engine/partition/plan_cache.h"

#include <algorithm>

#include "shardproof/engine/lower/step_items.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/exchange_volume.h"
#include "shardproof/localtensor/plan/known_plans.h"

namespace shardproof {
namespace {

// Returns bytes that a rank sends at least, on average. It receives the elements that it misses,
// even if it held the sum of all parts. If n parts are added up, n - 1 of them are sent once.
double least_bytes(const Spec& from, const Spec& to) {
  if (!(from.mesh() == to.mesh())) return 0;
  int64_t parts = 1;
  for (const int axis : from.partial_axes())
    if (!to.placement(axis).is_partial()) parts *= from.mesh().axis_size(axis);
  const double sent = static_cast<double>(element_count(from.shape()) * (parts - 1)) /
                      static_cast<double>(from.mesh().size());
  return std::max(missing_elements(from, to).to_double(), sent) *
         static_cast<double>(size_of(from.dtype()));
}

}  // namespace

PlannerOptions PlanCache::planner_options() const {
  PlannerOptions options;
  options.price = options_.price;
  options.moves = options_.moves;
  options.peak_limit = options_.peak_limit;
  return options;
}

PricedPlan* PlanCache::find(const Spec& from, const Spec& to) {
  const auto [first, last] = plans_.equal_range(hash_of(from, to));
  for (auto at = first; at != last; ++at)
    if (at->second.from == from && at->second.to == to) return &at->second;
  return nullptr;
}

PricedPlan& PlanCache::store(const Spec& from, const Spec& to,
                             std::shared_ptr<const PlannerResult> result) {
  const Price price = price_of(result->plan, choice_price());
  return plans_.emplace(hash_of(from, to), PricedPlan{from, to, std::move(result), price})->second;
}

PricedPlan& PlanCache::planned(const Spec& from, const Spec& to) {
  if (PricedPlan* known = find(from, to)) return *known;
  if (has_known_plans(options_.price) && !options_.peak_limit)
    return store(from, to, known_plan(from, to, options_.moves));
  return store(
      from, to,
      std::make_shared<const PlannerResult>(plan_redistribution(from, to, planner_options())));
}

const std::vector<PlannedStep>& PlanCache::steps(const Spec& from, const Spec& to) {
  PricedPlan& known = planned(from, to);
  if (known.steps.empty()) known.steps = steps_of(known.plan(), known.price);
  return known.steps;
}

std::vector<PlannedStep> PlanCache::steps_of(const Plan& plan,
                                             const std::optional<Price>& price) const {
  std::vector<PlannedStep> steps;
  for (const PlanStep& step : plan.steps) {
    PlannedStep& planned = steps.emplace_back();
    planned.price = price && plan.steps.size() == 1 ? *price : choice_price()(step);
    if (step.kind == StepKind::local || step.kind == StepKind::transfer) {
      planned.step = std::make_shared<const PlanStep>(step);
    } else {
      planned.calls = items_of_step(step, step.from.mesh().ranks(), kNoValue, kNoValue);
      SP_CHECK(!planned.calls.empty(), "a {} makes no call", name(step.kind));
      planned.step = planned.calls.front().step;
    }
  }
  return steps;
}

double PlanCache::least_primary(const Spec& from, const Spec& to) {
  if (const PricedPlan* known = find(from, to)) return known->price.primary;
  return options_.choice_price ? least_bytes(from, to) : 0;
}

Plan PlanCache::plan_with_limit(const Spec& from, const Spec& to, int64_t peak_limit) const {
  PlannerOptions options = planner_options();
  options.peak_limit = peak_limit;
  return plan_redistribution(from, to, options).plan;
}

// A search that ended early is not stored: another limit may have a result. If placements are
// compared by another price than plans, the limit does not bound the search.
const PricedPlan* PlanCache::plan_within(const Spec& from, const Spec& to,
                                         const std::optional<Price>& at_most) {
  const PricedPlan* known = find(from, to);
  if (!known && at_most && !options_.choice_price) {
    PlannerOptions options = planner_options();
    options.at_most = at_most;
    PlannerResult result = plan_redistribution(from, to, options);
    if (result.gave_up) return nullptr;
    known = &store(from, to, std::make_shared<const PlannerResult>(std::move(result)));
  }
  if (!known) known = &plan(from, to);
  return at_most && *at_most < known->price ? nullptr : known;
}

}  // namespace shardproof
