// Counts the calls of the flight record and their bytes, for expectations and reports.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

// Returns how many calls each rank has completed, by kind and group, sorted by kind, group and
// lanes. Ranks with equal counts and bytes share an entry; the entries of one kind and group are
// disjoint. Calls that did not complete are not counted.
std::vector<CallCount> count_calls(const LazyRecords& records);

}  // namespace shardproof
