// Deadlock diagnosis: explains by a wait-for graph why no rank can continue. A pure function.
//
// The graph (wait_for_graph.h): each blocked call points to its wait edge. An edge points to the
// blocked calls of the ranks that it awaits (holders). Two causes are distinguished.
//
// `deadlock`: ranks wait for each other in a cycle. Its ranks are those in cycles, its line is the
// earliest of their calls. A cycle has calls that were issued and cannot start, or ranks that have
// no call left that another one waits for. If a cycle needs both, the ranks without such a call are
// missing instead.
//
// `missing rank`: ranks wait for one that never joins. Its ranks are the missing ones, its line is
// the earliest call that waits directly for them. Its details name the ranks that wait in turn.
//
// A rank in a cycle that leaves a call out and waits in a later one is missing, not in a deadlock.
// It leaves a call of a group out if its whole program makes fewer calls on the group than each
// member that waits there (WaitEdge::left_out).
//
// Example 1. rank 0: all_reduce(tp), barrier(world). rank 1: barrier(world).
//   blocked[0] = rank 0 in call 1 of tp, awaits rank 1; blocked[1] = rank 1 in call 1 of world,
//   awaits rank 0. Holders: 0 -> 1, 1 -> 0, a cycle. Rank 1 makes no call on tp, rank 0 makes one:
//   `missing rank`, rank 1, at rank 0's line.
// Example 2. rank 0: all_reduce(tp), barrier(world). rank 1: barrier(world), all_reduce(tp).
//   The same graph, but both ranks make one call on tp and one on world: `deadlock`, ranks 0-1.
//
// If it is unknown which calls ranks make later (rank functions in C++), a cycle is a deadlock.
// Complexity: linear in calls and edges, except the shortest cycle, which is searched breadth
// first.
#pragma once

#include <vector>

#include "shardproof/localtensor/report/finding.h"
#include "shardproof/sim/analysis/wait_for_graph.h"

namespace shardproof {

// Returns at most one finding of each kind: first `deadlock`, then `missing rank`.
std::vector<Finding> diagnose_deadlock(const WaitForGraph& graph);

}  // namespace shardproof
