// Merges listings with equal text: rank programs that are written once for each rank become one
// listing for all of them. Causes are then found and edited on all ranks at once.
#pragma once

#include <optional>

#include "shardproof/engine/job/job.h"

namespace shardproof {

// Returns the job with one listing in place of those with equal lines; nullopt if all differ.
std::optional<Job> with_merged_listings(const Job& job);

}  // namespace shardproof
