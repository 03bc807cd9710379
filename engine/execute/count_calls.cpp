// Implements count_calls.h.
//
// Example: two all_reduces over tp, the first by ranks 0-3 as one record, the second by ranks 0-1
// alone. The sums are {0-3: 1} and {0-1: 1}; they overlap, so each rank is added up separately and
// ranks with equal sums are joined: {0-1: 2} and {2-3: 1}.
#include "shardproof/engine/execute/count_calls.h"

#include <algorithm>

namespace shardproof {
namespace {

struct Tally {
  int64_t count = 0;
  Fraction bytes;
};

using KindAndGroup = std::pair<std::string, std::string>;

// Tallies by set of ranks. The sets may overlap until disjoint() separates them.
using ByLanes = std::vector<std::pair<Lanes, Tally>>;

void tally(ByLanes& into, const Lanes& lanes, int64_t count, Fraction bytes) {
  for (auto& [known, sum] : into)
    if (known == lanes) {
      sum.count += count;
      sum.bytes = sum.bytes + bytes;
      return;
    }
  into.push_back({lanes, {count, bytes}});
}

// Returns disjoint sets of ranks, each with equal counts and bytes.
ByLanes disjoint(const ByLanes& sums, int64_t world) {
  if (sums.size() == 1) return sums;
  std::vector<Tally> of_rank(static_cast<size_t>(world));
  for (const auto& [lanes, sum] : sums)
    for (int64_t i = 0; i < lanes.size(); ++i) {
      Tally& own = of_rank[static_cast<size_t>(lanes[i])];
      own.count += sum.count;
      own.bytes = own.bytes + sum.bytes;
    }
  std::map<std::pair<int64_t, std::string>, std::pair<std::vector<int32_t>, Tally>> classes;
  for (int64_t rank = 0; rank < world; ++rank) {
    const Tally& own = of_rank[static_cast<size_t>(rank)];
    if (own.count == 0) continue;
    auto& [ranks, sum] = classes[{own.count, to_string(own.bytes)}];
    ranks.push_back(static_cast<int32_t>(rank));
    sum = own;
  }
  ByLanes result;
  for (auto& [key, entry] : classes)
    result.push_back({Lanes::of(std::move(entry.first)), entry.second});
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.first[0] < b.first[0]; });
  return result;
}

}  // namespace

std::vector<CallCount> count_calls(const std::vector<Record>& records, int64_t world) {
  std::map<KindAndGroup, ByLanes> sums;
  for (const Record& record : records)
    if (!record.group.empty() && record.state == RecordState::done)
      tally(sums[{record.kind, record.group}], record.ranks, 1, record.bytes_sent);
  std::vector<CallCount> result;
  for (const auto& [key, by_lanes] : sums)
    for (const auto& [lanes, sum] : disjoint(by_lanes, world))
      result.push_back({lanes, key.first, key.second, sum.count, sum.bytes});
  return result;
}

}  // namespace shardproof
