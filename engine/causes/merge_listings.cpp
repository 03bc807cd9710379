// Implements merge_listings.h.
#include "shardproof/engine/causes/merge_listings.h"

#include <algorithm>

namespace shardproof {

std::optional<Job> with_merged_listings(const Job& job) {
  std::vector<JobListing> merged;
  for (const JobListing& one : job.ranks) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const JobListing& known) {
      return known.listing == one.listing;
    });
    if (same == merged.end())
      merged.push_back(one);
    else
      same->lanes = same->lanes.unite(one.lanes);
  }
  if (merged.size() == job.ranks.size()) return std::nullopt;
  Job result = job;
  result.ranks = std::move(merged);
  return result;
}

}  // namespace shardproof
