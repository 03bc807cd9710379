// Splits the ranks of listings by the branches that they take, so that ranks of one branch can be a
// cohort, and finds cohorts that can never end. Internal to the engine.
#pragma once

#include <vector>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns disjoint sets of ranks that cover all listings, by listing and first rank. The ranks of a
// set belong to one listing and execute the same calls, waits and records of events. Ranks that
// send to others of such a set are in another set. Returns nothing if there are more than `most`
// sets, or if a set would block as a cohort.
std::vector<Lanes> ranks_by_branch(const SpmdProgram& program, int64_t most);

// True if a listing is known to block as one cohort: a message is sent by one submission and
// received by another one, and some rank makes both. The second then waits for the first, which
// waits for the second. A listing with calls on several streams is never known to block.
bool blocks_as_cohort(const SpmdProgram& program);

}  // namespace shardproof
