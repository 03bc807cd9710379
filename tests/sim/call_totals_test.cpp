// Tests CallTotals against a separate sum for each rank.
#include "shardproof/sim/analysis/call_totals.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof::call_totals_test {
namespace {

using PerRank =
    std::map<std::tuple<std::string, std::string, int32_t>, std::pair<int64_t, Fraction>>;

Lanes random_ranks(const Rng& rng, uint64_t draw) {
  if (rng.integer(draw, 0, 3) == 0) return Lanes::one(rng.integer(draw + 1, 0, 12));
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < 12; ++rank)
    if (rng.integer(draw + 2 + static_cast<uint64_t>(rank), 0, 3) == 0) ranks.push_back(rank);
  return ranks.empty() ? Lanes::range(3, 9) : Lanes::of(std::move(ranks));
}

TEST(CallTotals, RandomCalls_SumsOfEachRank_AndDisjointSets) {
  const Rng rng(1, 0);
  for (uint64_t round = 0; round < 500; ++round) {
    CallTotals totals;
    PerRank expected;
    const int64_t calls = rng.integer(round, 0, 20);
    for (int64_t call = 0; call < calls; ++call) {
      const uint64_t draw = 100'000 + 10'000 * round + 100 * static_cast<uint64_t>(call);
      const std::string kind = rng.integer(draw + 50, 0, 2) == 0 ? "send" : "all_reduce";
      const std::string group = rng.integer(draw + 51, 0, 2) == 0 ? "tp" : "world";
      const Fraction bytes(rng.integer(draw + 52, 0, 3), 3);
      const Lanes ranks = random_ranks(rng, draw);
      totals.add(totals.index_of(kind, group), ranks, bytes);
      for (int64_t i = 0; i < ranks.size(); ++i) {
        auto& [count, sum] = expected[{kind, group, ranks[i]}];
        ++count;
        sum = sum + bytes;
      }
    }
    PerRank found;
    for (const CallTotal& total : totals.totals())
      for (int64_t i = 0; i < total.ranks.size(); ++i) {
        const bool fresh = found
                               .emplace(std::tuple(total.kind, total.group, total.ranks[i]),
                                        std::pair(total.count, total.bytes))
                               .second;
        ASSERT_TRUE(fresh) << "rank " << total.ranks[i] << " is in two sets";
      }
    ASSERT_EQ(found, expected);
  }
}

TEST(CallTotals, OverlappingSets_EqualRanksInOneSet) {
  CallTotals totals;
  const size_t index = totals.index_of("send", "world");
  totals.add(index, Lanes::range(0, 4), 8);
  totals.add(index, Lanes::range(0, 4), 8);
  totals.add(index, Lanes::range(2, 4), 8);
  EXPECT_EQ(totals.totals(),
            (std::vector<CallTotal>{{"send", "world", Lanes::range(0, 2), 2, 16},
                                    {"send", "world", Lanes::range(2, 4), 3, 24}}));
}

}  // namespace
}  // namespace shardproof::call_totals_test
