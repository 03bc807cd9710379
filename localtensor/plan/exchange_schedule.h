// The schedule of an exchange: which member of the group sends which box to which member.
//
// A part is a box that some ranks hold as replicas before the exchange. Each member receives the
// indices that it needs of each part from one rank. It is the source itself if it holds the part;
// else one of the ranks that hold the part is. These take turns: the one that has the least to send
// so far is next.
//
// Example: dim of 4, axes a=2 and b=2, from "a:S(0)" to "b:S(0)". Part 0 is held by ranks 0 and 1.
// Rank 2 (a=1, b=0) needs it and receives it from rank 0.
#pragma once

#include <memory>
#include <vector>

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

struct ExchangeSchedule {
  int64_t members = 1;  // of the group
  // Elements that the rank at position p of the mesh sends to, and receives from, member i of its
  // group: at [p * members + i]. A rank sends itself the elements that it keeps.
  std::vector<int64_t> sent, received;
};

// Returns the schedule of an exchange step in one piece. The last schedules are cached;
// thread-safe.
std::shared_ptr<const ExchangeSchedule> exchange_schedule(const PlanStep& step);

}  // namespace shardproof
