// Known plans: plans without a topology that this process has computed before. A program repeats
// few pairs of placements many times.
//
// Threading: any thread may call known_plan. At most kMaxKnownPlans plans are stored; then all are
// dropped, because computing them again is cheap.
//
// Example: known_plan(a, b) searches once; the second call takes less than a microsecond.
#pragma once

#include <memory>

#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

inline constexpr size_t kMaxKnownPlans = 20000;

// Returns plan_redistribution(from, to) with these moves and otherwise default options. Throws as
// that does.
std::shared_ptr<const PlannerResult> known_plan(const Spec& from, const Spec& to,
                                                PlanMoves moves = PlanMoves::all);

// True if known_plan computes the plans of this price.
bool has_known_plans(const PriceFunction& price);

// Return a number that is equal for equal specs.
uint64_t hash_of(const Spec& spec);
uint64_t hash_of(const Spec& from, const Spec& to);

}  // namespace shardproof
