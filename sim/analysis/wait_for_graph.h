// WaitForGraph: which call of which rank waits for which other call. The local backend fills it
// when no rank can continue (local_world_blocked.cpp); the deadlock diagnosis (deadlock.h) reads
// it.
//
// Each blocked call points to its wait edge, which all calls of one collective share. An edge
// points to the blocked calls of the ranks that it awaits (holders). Calls are given by their index
// in `blocked`.
//
// Example. rank 0: all_reduce(tp), barrier(world). rank 1: barrier(world), all_reduce(tp).
//   blocked[0]: rank 0 in the all_reduce, edge 0. blocked[1]: rank 1 in the barrier, edge 1.
//   edges[0]: awaits rank 1, holders {1}. edges[1]: awaits rank 0, holders {0}. A cycle.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/lanes.h"

namespace shardproof {

// The ranks that a blocked call waits for. The calls of one collective share it.
struct WaitEdge {
  std::string group;             // "tp [4 5 6 7]"; empty for a wait between streams
  int64_t call = 0;              // number in the group
  std::string what;              // "to receive" for a message or signal; else empty
  std::vector<int32_t> ranks;    // ranks that have not joined the call
  std::vector<int32_t> holders;  // indices of the blocked calls in which they wait
  std::vector<int32_t> missing;  // subset of `ranks`: they never join
  // Subset of `ranks`: they wait elsewhere, and their whole program makes fewer calls on the group
  // than that of each waiting member.
  std::vector<int32_t> left_out;
};

// The call at the head of a stream.
struct BlockedCall {
  Lanes ranks;
  int line = 0;
  std::string instance;
  std::string text;       // source text of the call
  bool pairwise = false;  // a send or a receive
  int32_t edge = -1;      // index into WaitForGraph::edges; -1: none
};

// The wait-for graph of a world in which nothing can run.
struct WaitForGraph {
  int64_t world = 0;  // ranks
  std::vector<BlockedCall> blocked;
  std::vector<WaitEdge> edges;
  std::map<int32_t, std::string> gone;  // missing rank -> reason, "has ended"
};

// Returns the wait edge of a blocked call; null if it has none.
const WaitEdge* wait_edge_of(const WaitForGraph& graph, const BlockedCall& blocked);
// Returns the lowest rank of a blocked call.
int32_t first_rank(const WaitForGraph& graph, size_t call);
Lanes ranks_of_calls(const WaitForGraph& graph, const std::vector<size_t>& calls);

// Returns the calls of each strongly connected component with a cycle, ascending. Linear in calls
// and edges.
std::vector<std::vector<size_t>> cyclic_components(const WaitForGraph& graph);
// Returns the shortest cycle through the component's call of the lowest rank. That call stands
// first and last. Requires a component of cyclic_components.
std::vector<size_t> shortest_cycle(const WaitForGraph& graph, const std::vector<size_t>& component);
// Returns these calls and all that wait for one of them, directly or in turn. Calls that are
// blocked for another reason are not reached. Linear in calls and edges.
std::vector<size_t> calls_waiting_for(const WaitForGraph& graph, std::vector<size_t> calls);

}  // namespace shardproof
