// Tests lanes.h as a set algebra, against std::set.
#include "shardproof/localtensor/base/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof::lanes_test {
namespace {

using Set = std::set<int32_t>;

Lanes lanes_of(const Set& ranks) { return Lanes::of({ranks.begin(), ranks.end()}); }

Set set_of(const Lanes& lanes) {
  Set ranks;
  for (int64_t i = 0; i < lanes.size(); ++i) ranks.insert(lanes[i]);
  return ranks;
}

// Returns, in turn, ranges, strided sets, scattered sets and empty ones.
Set random_set(const Rng& rng, uint64_t draw) {
  const int64_t first = rng.integer(draw, 0, 20), last = first + rng.integer(draw + 1, 0, 20);
  const int64_t step = rng.integer(draw + 2, 1, 4);
  Set ranks;
  for (int64_t rank = first; rank < last; rank += step) {
    const bool kept = draw % 3 != 0 || rng.bits(draw + 100 + static_cast<uint64_t>(rank)) % 2 == 0;
    if (kept) ranks.insert(static_cast<int32_t>(rank));
  }
  return ranks;
}

template <typename Algorithm>
Set combined(const Set& a, const Set& b, Algorithm algorithm) {
  Set result;
  algorithm(a.begin(), a.end(), b.begin(), b.end(), std::inserter(result, result.end()));
  return result;
}

TEST(Lanes, SetOperations_AgreeWithStdSet) {
  const Rng rng(1, 0);
  for (uint64_t i = 0; i < 20'000; ++i) {
    const Set a = random_set(rng, 1000 * i), b = random_set(rng, 1000 * i + 500);
    const Lanes x = lanes_of(a), y = lanes_of(b);
    ASSERT_EQ(set_of(x), a);
    const auto and_ = [](auto... args) { std::set_intersection(args...); };
    const auto or_ = [](auto... args) { std::set_union(args...); };
    const auto not_ = [](auto... args) { std::set_difference(args...); };
    ASSERT_EQ(x.intersect(y), lanes_of(combined(a, b, and_)))
        << to_string(x) << ", " << to_string(y);
    ASSERT_EQ(x.unite(y), lanes_of(combined(a, b, or_))) << to_string(x) << ", " << to_string(y);
    ASSERT_EQ(x.minus(y), lanes_of(combined(a, b, not_))) << to_string(x) << ", " << to_string(y);
    ASSERT_EQ(x.contains(y), std::includes(a.begin(), a.end(), b.begin(), b.end()));
    ASSERT_EQ(x == y, a == b);
    ASSERT_EQ(x.hash() == y.hash(), a == b);
  }
}

// The same set made in different ways, next to sets that differ in one rank.
TEST(Lanes, HashIsThatOfTheSet) {
  const Rng rng(4, 0);
  std::unordered_map<Lanes, Set, LanesHash> known;
  for (uint64_t i = 0; i < 20'000; ++i) {
    Set ranks = random_set(rng, 1000 * i);
    const Lanes x = lanes_of(ranks);
    Lanes joined;
    for (const int32_t rank : ranks) joined = joined.unite(Lanes::one(rank));
    ASSERT_EQ(joined, x);
    ASSERT_EQ(joined.hash(), x.hash());
    ASSERT_EQ(known.emplace(x, ranks).first->second, ranks);
    const int32_t other = static_cast<int32_t>(rng.integer(1000 * i + 7, 0, 45));
    if (!ranks.erase(other)) ranks.insert(other);
    ASSERT_NE(lanes_of(ranks), x);
    ASSERT_NE(lanes_of(ranks).hash(), x.hash());
  }
}

TEST(Lanes, IndexOf_IsTheLaneOfARank) {
  const Rng rng(2, 0);
  for (uint64_t i = 0; i < 1000; ++i) {
    const Set a = random_set(rng, 1000 * i);
    const Lanes x = lanes_of(a);
    for (int32_t rank = -1; rank < 45; ++rank) {
      const auto at = a.find(rank);
      ASSERT_EQ(x.index_of(rank), at == a.end() ? -1 : std::distance(a.begin(), at));
      ASSERT_EQ(x.contains(rank), at != a.end());
    }
  }
}

TEST(Lanes, TextParsesBack) {
  const Rng rng(3, 0);
  for (uint64_t i = 0; i < 1000; ++i) {
    const Lanes x = lanes_of(random_set(rng, 1000 * i));
    ASSERT_EQ(parse_lanes(to_string(x)), x) << to_string(x);
  }
}

TEST(Lanes, TextIsASelector) {
  EXPECT_EQ(to_string(Lanes{}), "none");
  EXPECT_EQ(to_string(Lanes::one(3)), "3");
  EXPECT_EQ(to_string(Lanes::range(0, 2)), "0 1");
  EXPECT_EQ(to_string(Lanes::range(0, 4)), "0-3");
  EXPECT_EQ(to_string(Lanes::of({5, 0, 2, 0})), "0 2 5");
  EXPECT_EQ(to_string(Lanes::of({0, 1, 2, 3, 8, 9, 10, 11, 20, 21})), "0-3 8-11 20 21");
  for (const char* text :
       {"", "a", "3-1", "-1", "1,2", "1-", "0-3-5", "99999999999", "0-1 2-99999999"})
    EXPECT_EQ(parse_lanes(text), std::nullopt) << text;
  EXPECT_EQ(parse_lanes("4-7 0-3 2"), Lanes::range(0, 8));
}

TEST(Lanes, ContiguousSets_AreRanges) {
  EXPECT_TRUE(Lanes::of({3, 1, 2}).is_range());
  EXPECT_TRUE(Lanes::of({1, 3}).unite(Lanes::one(2)).is_range());
  EXPECT_TRUE(Lanes::of({1, 2, 9}).minus(Lanes::one(9)).is_range());
  EXPECT_EQ(Lanes::range(5, 5), Lanes{});
  EXPECT_EQ(Lanes::range(0, int64_t{1} << 31).size(), int64_t{1} << 31);
}

}  // namespace
}  // namespace shardproof::lanes_test
