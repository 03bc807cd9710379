// Deadlock: why nothing moves any more, as findings. A pure function of who is blocked and by whom.
//
// Two causes are told apart. Ranks that wait for each other in a circle: one `deadlock` finding;
// its ranks are those in circles, its line is the earliest of their calls. A circle is made of
// calls that others issued but cannot start, or of ranks that each have no call left that the other
// waits for; where it takes both, the calls that were left out are the cause. Ranks that wait for
// one which will never come: one `missing rank` finding; its ranks are the missing ones, its line
// is the earliest call that waits directly for them. Ranks that only wait for such ranks in turn
// are told in its details.
//
// A rank of a circle that leaves a call out and waits in a later one is missing too, not in a
// deadlock. It leaves a call of a group out if it makes fewer calls on the group in its whole
// program than each member that waits there (Awaiting::left_out); so its own later calls on the
// group do not make up for it.
//   rank 0: all_reduce(tp), barrier(world)   rank 1: barrier(world)
//     Rank 0 waits in call 1 of tp for rank 1, rank 1 in the barrier for rank 0. Rank 1 makes no
//     call on tp, rank 0 makes one: `missing rank`, rank 1, at rank 0's line.
//   rank 0: all_reduce(tp), barrier(world)   rank 1: barrier(world), all_reduce(tp)
//     The same two waits, but each rank makes one call on tp and one on world: `deadlock`.
// Where it is unknown what ranks call later (rank functions in C++), a circle is a deadlock.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/report/finding.h"

namespace shardproof {

// What a call needs before it can go on; calls of one meeting share it.
struct WaitEdge {
  std::string group;             // "tp [4 5 6 7]"; empty for a wait between streams
  int64_t call = 0;              // number in the group
  std::string what;              // "to receive", or empty
  std::vector<int32_t> ranks;    // that have not come
  std::vector<int32_t> holders;  // indices of the blocked calls that keep them from coming
  std::vector<int32_t> missing;  // of `ranks`: those that will never come
  std::vector<int32_t>
      left_out;  // of `ranks`, waiting elsewhere: those with fewer such calls in all
};

// The call at the head of a stream.
struct Blocked {
  Lanes ranks;
  int line = 0;
  std::string instance;
  std::string text;       // as its author wrote it
  bool pairwise = false;  // a send or a receive
  int32_t awaiting = -1;  // index
};

struct WaitGraph {
  int64_t world = 0;  // ranks
  std::vector<Blocked> blocked;
  std::vector<WaitEdge> awaiting;
  std::map<int32_t, std::string> gone;  // missing rank -> "has ended"
};

std::vector<Finding> explain(const WaitGraph& known);

}  // namespace shardproof
