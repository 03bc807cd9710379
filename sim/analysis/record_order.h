// The order of records: by end time, with equal records of several ranks merged into one. Two runs
// of one program have equal records however their ranks were grouped into cohorts. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/report/call_record.h"

namespace shardproof {

// Returns the records in that order.
std::vector<Record> in_order(std::vector<Record> records);

// A collective whose calls do not fit. `members` made it; the calls of `odd` differ from the
// others.
struct MismatchedCollective {
  Lanes members, odd;
  std::string group;
  int64_t call = 0;
};
// Returns the first earlier call in which a rank of `odd` and another member differ: "rank 6
// skipped barrier(group=dp) before it (line 21)". Empty if none differs or the records do not reach
// back.
std::string first_divergence(const std::vector<Record>& records,
                             const MismatchedCollective& instance);
// True if a rank of `odd` makes the same calls as another member in another order.
bool differ_in_order(const std::vector<Record>& records, const MismatchedCollective& instance);

}  // namespace shardproof
