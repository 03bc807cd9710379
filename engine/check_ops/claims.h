// Claims: what an op's sharding rule states for one call on one mesh. A claim states that inputs
// with these placements give outputs with those placements, if each rank runs the stated form.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/check_ops/draws.h"
#include "shardproof/engine/check_ops/lower_by_rules.h"
#include "shardproof/engine/check_ops/shard_cache.h"

namespace shardproof {

// The layout of an axis's shards: by the chunk rule, strided, or of explicit sizes.
struct CutChoice {
  int64_t split = 1;
  std::vector<int64_t> shares;  // sizes in order, the first gets what remains; empty: chunk rule
};

struct MeshChoice {
  Mesh mesh;
  std::vector<CutChoice> cuts;  // by axis
};

struct RuleClaim {
  std::vector<Spec> inputs;  // of an absent input: of no dims, replicated
  Placed placed;
};

// Returns each claim of the op's rule: every choice of a strategy or R for each axis, and for a
// joint rule every choice of placements. The cuts of an axis are equal on all tensors.
std::vector<RuleClaim> claims_of(const OpInstance& instance, const MeshChoice& on);

// The answer about one claim.
struct ClaimAnswer {
  enum class Kind { holds, wrong, undecided, refused };  // refused: a lowering takes no such cuts
  Kind kind = Kind::undecided;
  size_t output = 0;
  std::string trouble;  // a rank fails, or the wrong shape
  std::string reason;   // of `undecided` and `refused`
  Disagreement first;
  DrawKind draw = DrawKind::real;
  uint64_t seed = 0;
};
// The reason of an answer whose results neither agree nor differ on any draw.
inline constexpr const char* kNeitherReason =
    "on every draw the results are too near for wrong and too far for right";
// Returns the reason of an answer for which no draw was judged.
std::string unjudged_reason(const std::vector<RuleDraw>& draws);

// Judges a claim on each draw that applies. Undecided: no draw applies, or all real draws are
// unclear. The draws must outlive the cache.
ClaimAnswer check_claim(const RuleClaim& claim, const std::vector<RuleDraw>& draws,
                        const OpRegistry& ops, ShardCache& cache);

}  // namespace shardproof
