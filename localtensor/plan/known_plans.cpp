// Implements known_plans.h: a hash map under a lock. The search runs outside of the lock, so two
// threads may compute one plan twice.
#include "shardproof/localtensor/plan/known_plans.h"

#include <mutex>
#include <unordered_map>

#include "shardproof/localtensor/plan/planner_search.h"

namespace shardproof {

namespace {

class Hasher {
 public:
  void add(uint64_t value) {
    hash_ = (hash_ ^ value) * 0xff51afd7ed558ccdu;
    hash_ ^= hash_ >> 32;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0x9e3779b97f4a7c15u;
};

struct KnownPlan {
  Spec from, to;
  PlanMoves moves;
  std::shared_ptr<const PlannerResult> result;
};

class KnownPlans {
 public:
  std::shared_ptr<const PlannerResult> find(uint64_t hash, const Spec& from, const Spec& to,
                                            PlanMoves moves) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = plans_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      const KnownPlan& known = at->second;
      if (known.moves == moves && known.from == from && known.to == to) return known.result;
    }
    return nullptr;
  }
  void store(uint64_t hash, KnownPlan plan) {
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMaxKnownPlans) plans_.clear();
    plans_.emplace(hash, std::move(plan));
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, KnownPlan> plans_;
};

}  // namespace

bool has_known_plans(const PriceFunction& price) { return has_lower_bounds(price); }

uint64_t hash_of(const Spec& spec) {
  Hasher hasher;
  for (const MeshAxis& axis : spec.mesh().axes()) hasher.add(static_cast<uint64_t>(axis.size));
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    hasher.add(static_cast<uint64_t>(spec.shape()[dim]));
  hasher.add(static_cast<uint64_t>(spec.dtype()));
  for (const Placement& placement : spec.placements()) {
    uint64_t number = placement.is_replicate() ? 0 : 1;
    if (placement.is_shard())
      number = static_cast<uint64_t>(2 + placement.shard().dim + 64 * placement.shard().split);
    hasher.add(number);
  }
  for (const int axis : spec.order()) hasher.add(static_cast<uint64_t>(axis));
  return hasher.hash();
}

uint64_t hash_of(const Spec& from, const Spec& to) { return hash_of(from) * 3 + hash_of(to); }

std::shared_ptr<const PlannerResult> known_plan(const Spec& from, const Spec& to, PlanMoves moves) {
  static KnownPlans plans;
  const uint64_t hash = hash_of(from, to);
  if (auto known = plans.find(hash, from, to, moves)) return known;
  PlannerOptions options;
  options.moves = moves;
  auto result = std::make_shared<const PlannerResult>(plan_redistribution(from, to, options));
  plans.store(hash, {from, to, moves, result});
  return result;
}

}  // namespace shardproof
