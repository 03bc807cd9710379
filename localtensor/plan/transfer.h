// Transfers, which move a tensor to another mesh. transfer_pieces of plan.h returns their messages.
// Here is the condition under which partials move as they are: nothing is sent, and ranks keep what
// they hold. Example: P(sum) over "a=4" to P(sum) over "b=4" on the same ranks.
#pragma once

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// True if both meshes have the same ranks, each rank holds the same part before and after, and its
// partials belong to the same sum. Sums are the same if the same ranks add by the same reduction.
// Takes time in proportion to the ranks.
bool has_same_partials(const Spec& from, const Spec& to);

// Returns a price without topology that no plan to another mesh is below, if partials become whole
// values; else 0. No rank holds a whole element before, so each rank of the target receives what it
// needs, in one call or more. The bytes of a step are an average over its ranks.
double least_price_across(const Spec& from, const Spec& to);

}  // namespace shardproof
