// Exhaustive search for the right rules of one call on one mesh: all placements of the inputs,
// times all placements of each result. Local results are computed once for each choice of inputs,
// lanes of equal local shapes in one kernel call. Each candidate for a result is then judged from
// them by index lists; the loop makes no Spec and allocates nothing.
//
// Example: add on [4, 6] and an axis of 2 ranks has 13 placements for each of three tensors, 2,197
// candidates; two draws need 8 kernel calls.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/engine/check_ops/draws.h"
#include "shardproof/engine/check_ops/enumerate.h"

namespace shardproof {

struct RightRule {
  std::vector<int32_t> inputs;  // by input: index of its placement
  int32_t output = 0, placement = 0;
};

struct CandidateResult {
  int64_t combinations = 0;  // choices of inputs times placements of one result
  std::vector<RightRule> right;
};

// Returns the rules that hold on every draw that applies to them, and on one at least. `inputs` and
// `outputs` list the placements of each tensor, all on one mesh of the ranks 0..n-1. `tables`
// has those of earlier searches.
CandidateResult search_candidates(const std::vector<RuleDraw>& draws,
                                  const std::vector<std::vector<Spec>>& inputs,
                                  const std::vector<std::vector<Spec>>& outputs,
                                  PlacementTables& tables);

// A right rule that the op's own rule does not claim: no error, because a rule may leave out
// placements.
struct MissingRule {
  std::vector<Placement> inputs;  // on one axis
  int32_t output = 0;
  Placement placement = R();
};
// Returns the right rules on an axis of 2 ranks that the op's own rule does not claim, except those
// of inputs that are all R. Adds the number of candidates to `combinations`. A call with too many
// placements of its inputs (more than a million) is left out.
std::vector<MissingRule> missing_rules(const OpInstance& instance,
                                       const std::vector<RuleDraw>& draws, int64_t& combinations);

}  // namespace shardproof
