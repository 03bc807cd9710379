// The planner: finds the cheapest Plan between two specs. Pairs without partials take at most one
// call, an exchange if no named collective does as well; others are searched for. It accepts every
// pair of specs on one mesh (uneven, empty, strided, ordered, explicit sizes, partials of every
// operator); across meshes it uses one transfer. The cost of a step is a parameter.
//
// Only axes that have to move take part. An axis stays as it is if both specs give it the same
// placement and its ranks own the same before and after. It stays even if a temporary slice over it
// would save bytes. Exceptions: `use_replicas` is set, or no other plan is within the peak
// limit without pieces. A plan therefore makes no call over an axis that the user did not write.
//
// Example: "dp=2, tp=2", f32[8, 8], from "dp:S(0) tp:S(0)" to "dp:S(0) tp:S(1)". Only tp moves. The
// plan is one all_to_all over tp, 32 bytes a rank; the naive plan (gather_then_slice) sends 192.
#pragma once

#include <optional>

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

enum class PlanMoves {
  all,
  collectives,  // all but exchange
};

std::string_view name(PlanMoves moves);  // "collectives"
// Returns the inverse of name. Throws Error(bad_input).
PlanMoves parse_plan_moves(std::string_view text);

struct PlannerOptions {
  PriceFunction price = price_without_topology;
  PlanMoves moves = PlanMoves::all;
  int64_t max_states = 20000;  // states to settle; beyond it the best plan found so far is used
  // The most bytes of the tensor that a rank may hold at a time (peak_of). Steps that exceed it run
  // in pieces where that is cheaper than another plan.
  std::optional<int64_t> peak_limit;
  // True: a plan may also cut temporarily over axes that stay as they are, such as R in both specs.
  bool use_replicas = false;
  // Ignores plans that cost more; the search ends as soon as no other plan can exist.
  std::optional<Price> at_most;
};

struct PlannerResult {
  Plan plan;
  Price price;
  int64_t states = 0;  // states that the search settled
  // The most by which a plan of these moves can cost less, in units of price.primary. 0: the plan
  // is optimal.
  double gap = 0;
  Price gather_then_slice;  // price of the naive plan
  bool gave_up = false;     // true if every plan costs more than `at_most`; `plan` is the naive one
};

// Returns the cheapest plan found. Throws Error(bad_input) if no plan exists: shapes or dtypes
// differ, or one axis has different partial reductions in the two specs. Also throws if each plan
// exceeds the peak limit; the message has the smallest limit that works.
PlannerResult plan_redistribution(const Spec& from, const Spec& to,
                                  const PlannerOptions& options = {});
// Returns the naive plan that others are compared with: every axis that changes becomes R, then is
// sliced. Requires one mesh.
Plan gather_then_slice(const Spec& from, const Spec& to);

}  // namespace shardproof
