// PairTable against std::map, on the patterns of messages that programs have.
#include "shardproof/localtensor/base/pair_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof::pair_table_test {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct Pattern {
  std::string name;
  std::function<Pair(uint64_t draw)> pair;
};

std::vector<Pattern> patterns() {
  const Rng rng(1, 0);
  const auto rank = [rng](uint64_t draw) {
    return static_cast<int32_t>(rng.integer(draw, 0, 512));
  };
  const auto i = [](uint64_t draw) { return static_cast<int32_t>(draw % 512); };
  return {{"any to any",
           [=](uint64_t draw) {
             return Pair{rank(2 * draw), rank(2 * draw + 1)};
           }},
          {"ring",
           [=](uint64_t draw) {
             return Pair{i(draw), (i(draw) + 1) % 512};
           }},
          {"halo of 32 x 16",
           [=](uint64_t draw) {
             constexpr int32_t kSteps[] = {1, 511, 16, 496};
             return Pair{i(draw), (i(draw) + kSteps[draw / 512 % 4]) % 512};
           }},
          {"dissemination",
           [=](uint64_t draw) {
             return Pair{i(draw), (i(draw) + (1 << draw / 512 % 9)) % 512};
           }},
          {"star",
           [=](uint64_t draw) {
             return Pair{0, i(draw)};
           }},
          {"far ranks", [=](uint64_t draw) {
             return Pair{0x7FFFFFFF - rank(draw), rank(draw + 1)};
           }}};
}

TEST(PairTable, HoldsWhatAMapHolds) {
  for (const Pattern& pattern : patterns()) {
    PairTable<int64_t> table;
    std::map<Pair, int64_t> map;
    EXPECT_EQ(table.find(0, 0), nullptr);
    for (uint64_t draw = 0; draw < 20'000; ++draw) {
      const Pair pair = pattern.pair(draw);
      const int64_t known = map[pair] += static_cast<int64_t>(draw);
      ASSERT_EQ(table.at(pair.first, pair.second) += static_cast<int64_t>(draw), known)
          << pattern.name;
    }
    ASSERT_EQ(table.size(), map.size()) << pattern.name;
    for (const auto& [pair, value] : map) {
      const int64_t* held = table.find(pair.first, pair.second);
      ASSERT_TRUE(held != nullptr && *held == value) << pattern.name;
    }
    for (int32_t rank = 0; rank < 600; ++rank)
      ASSERT_EQ(table.find(rank, 700), nullptr) << pattern.name;
  }
}

}  // namespace
}  // namespace shardproof::pair_table_test
