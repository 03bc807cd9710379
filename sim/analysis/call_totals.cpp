// Implements call_totals.h. Sets of ranks that were added may overlap. If a kind and group has more
// than one set, their sums are added up rank by rank. Ranks with equal sums make up a set of the
// result. Example: {0-3: 2 calls} and {2 3: 1 call} give {0 1: 2 calls} and {2 3: 3 calls}.
#include "shardproof/sim/analysis/call_totals.h"

#include <algorithm>

namespace shardproof {

void CallTotals::Sum::add(int64_t calls, Fraction more) {
  count += calls;
  if (more != Fraction{}) bytes = bytes + more;
}

size_t CallTotals::index_of(const std::string& kind, const std::string& group) {
  const auto [at, fresh] = indices_.try_emplace({kind, group}, sums_.size());
  if (fresh) sums_.emplace_back();
  return at->second;
}

void CallTotals::add(size_t index, const Lanes& ranks, Fraction bytes) {
  Sums& sums = sums_[index];
  if (ranks.size() != 1) return sums.of_ranks[ranks].add(1, bytes);
  const auto rank = static_cast<size_t>(ranks[0]);
  if (rank >= sums.of_rank.size()) sums.of_rank.resize(std::max(rank + 1, 2 * sums.of_rank.size()));
  sums.of_rank[rank].add(1, bytes);
}

std::vector<std::pair<Lanes, CallTotals::Sum>> CallTotals::disjoint(const Sums& sums) {
  if (sums.of_rank.empty() && sums.of_ranks.size() == 1)
    return {sums.of_ranks.begin(), sums.of_ranks.end()};
  std::vector<Sum> of_rank = sums.of_rank;
  for (const auto& [ranks, sum] : sums.of_ranks) {
    const auto end = static_cast<size_t>(ranks.empty() ? 0 : ranks[ranks.size() - 1] + 1);
    if (end > of_rank.size()) of_rank.resize(end);
    for (int64_t i = 0; i < ranks.size(); ++i)
      of_rank[static_cast<size_t>(ranks[i])].add(sum.count, sum.bytes);
  }
  std::map<std::pair<int64_t, Fraction>, std::vector<int32_t>> alike;
  std::vector<int32_t>* last = nullptr;  // those of the rank before
  for (size_t rank = 0; rank < of_rank.size(); ++rank) {
    const Sum& own = of_rank[rank];
    if (own.count == 0) continue;
    const bool as_before = last != nullptr && static_cast<size_t>(last->back()) + 1 == rank &&
                           of_rank[rank - 1].count == own.count &&
                           of_rank[rank - 1].bytes == own.bytes;
    if (!as_before) last = &alike[{own.count, own.bytes}];
    last->push_back(static_cast<int32_t>(rank));
  }
  std::vector<std::pair<Lanes, Sum>> result;
  for (auto& [sum, ranks] : alike)
    result.emplace_back(Lanes::of(std::move(ranks)), Sum{sum.first, sum.second});
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.first[0] < b.first[0]; });
  return result;
}

std::vector<CallTotal> CallTotals::totals() const {
  std::vector<CallTotal> result;
  for (const auto& [name, index] : indices_)
    for (auto& [ranks, sum] : disjoint(sums_[index]))
      result.push_back({name.first, name.second, ranks, sum.count, sum.bytes});
  return result;
}

}  // namespace shardproof
