// Counting: the flight record as calls and bytes of each rank, for expectations and reports.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

std::vector<CallCount> count_calls(const std::vector<Record>& records, int64_t world);

}  // namespace shardproof
