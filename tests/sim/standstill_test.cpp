#include <gtest/gtest.h>

#include "shardproof/localtensor/rng.h"
#include "shardproof/sim/deadlock.h"

namespace shardproof {
namespace {

// A world where rank r's call waits for `waits[r]` (empty: it has ended); who waits for nobody's
// call that can move would not be here.
Standstill still_of(const std::vector<std::vector<int32_t>>& waits) {
  Standstill s;
  s.world = static_cast<int64_t>(waits.size());
  std::vector<int32_t> call_of(waits.size(), -1);
  for (size_t rank = 0; rank < waits.size(); ++rank) {
    if (waits[rank].empty()) continue;
    call_of[rank] = static_cast<int32_t>(s.blocked.size());
    Blocked call;
    call.ranks = Lanes::one(static_cast<int64_t>(rank));
    call.line = static_cast<int>(rank) + 1;
    call.awaiting = static_cast<int32_t>(s.blocked.size());
    s.blocked.push_back(call);
  }
  for (const auto& ranks : waits) {
    if (ranks.empty()) continue;
    Awaiting awaiting;
    awaiting.ranks = ranks;
    for (int32_t rank : ranks) {
      const int32_t call = call_of[static_cast<size_t>(rank)];
      if (call >= 0)
        awaiting.holders.push_back(call);
      else
        awaiting.missing.push_back(rank), s.gone.emplace(rank, "has ended");
    }
    s.awaiting.push_back(awaiting);
  }
  return s;
}

// Ranks that reach themselves, by brute force.
Lanes on_circles(const std::vector<std::vector<int32_t>>& waits) {
  const size_t n = waits.size();
  std::vector<std::vector<char>> reach(n, std::vector<char>(n, 0));
  for (size_t i = 0; i < n; ++i)
    for (int32_t j : waits[i]) reach[i][static_cast<size_t>(j)] = 1;
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) reach[i][j] = reach[i][j] || (reach[i][k] && reach[k][j]);
  std::vector<int32_t> ranks;
  for (size_t i = 0; i < n; ++i)
    if (reach[i][i]) ranks.push_back(static_cast<int32_t>(i));
  return Lanes::of(ranks);
}

TEST(Standstill, finds_exactly_the_ranks_on_circles_and_the_missing_ones) {
  const Rng rng(5, 1);
  uint64_t draw = 0;
  int deadlocks = 0, missing = 0;
  for (int round = 0; round < 500; ++round) {
    const int64_t n = rng.integer(draw++, 1, 9);
    std::vector<std::vector<int32_t>> waits(static_cast<size_t>(n));
    std::vector<int32_t> ended;
    for (auto& ranks : waits)
      for (int64_t k = rng.integer(draw++, 0, 3); k > 0; --k)
        ranks.push_back(static_cast<int32_t>(rng.integer(draw++, 0, n)));
    for (const auto& ranks : waits)
      for (int32_t rank : ranks)
        if (waits[static_cast<size_t>(rank)].empty()) ended.push_back(rank);
    const std::vector<Finding> findings = explain(still_of(waits));
    const Lanes circles = on_circles(waits);
    size_t at = 0;
    if (!circles.empty()) {
      ASSERT_LT(at, findings.size());
      EXPECT_EQ(findings[at].verdict, Verdict::deadlock);
      EXPECT_EQ(findings[at].ranks, circles);
      EXPECT_EQ(findings[at].line, circles[0] + 1);
      ++at;
      ++deadlocks;
    }
    if (!ended.empty()) {
      ASSERT_LT(at, findings.size());
      EXPECT_EQ(findings[at].verdict, Verdict::missing_rank);
      EXPECT_EQ(findings[at].ranks, Lanes::of(ended));
      ++at;
      ++missing;
    }
    EXPECT_EQ(at, findings.size());
  }
  EXPECT_GT(deadlocks, 50);
  EXPECT_GT(missing, 50);
}

// Ranks that wait for each other with nothing left to issue; rank r waits for `lacks[r]` (-1: it
// has ended).
Standstill lacking_calls(const std::vector<int32_t>& lacks) {
  Standstill s;
  s.world = static_cast<int64_t>(lacks.size());
  for (size_t rank = 0; rank < lacks.size(); ++rank) {
    if (lacks[rank] < 0) continue;
    Blocked call;
    call.ranks = Lanes::one(static_cast<int64_t>(rank));
    call.line = static_cast<int>(rank) + 1;
    call.awaiting = static_cast<int32_t>(s.awaiting.size());
    s.blocked.push_back(call);
    Awaiting awaiting;
    awaiting.what = "to send";
    awaiting.ranks = awaiting.missing = {lacks[rank]};
    s.awaiting.push_back(awaiting);
    s.gone.emplace(lacks[rank], "has ended");
  }
  return s;
}

TEST(Standstill, who_waits_for_each_other_has_not_ended) {
  std::vector<Finding> findings = explain(lacking_calls({1, 0, 1, 2}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::deadlock);
  EXPECT_EQ(findings[0].ranks, Lanes::range(0, 2));
  EXPECT_EQ(findings[0].fix, "let every send have its receive, and every receive its send");
  // Here rank 3 is the one that is missing, and beside it there is a circle.
  findings = explain(lacking_calls({1, 0, 3, -1}));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].verdict, Verdict::missing_rank);
  EXPECT_EQ(findings[1].ranks, Lanes::one(3));
  // A chain to one that has ended.
  findings = explain(lacking_calls({1, 2, -1}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(findings[0].ranks, Lanes::range(1, 3));
}

TEST(Standstill, nothing_blocked_is_nothing_to_explain) { EXPECT_TRUE(explain({}).empty()); }

// One circle through 30,000 ranks: no recursion, no square of the ranks.
TEST(Standstill, a_long_circle_is_found) {
  std::vector<std::vector<int32_t>> waits(30000);
  for (size_t i = 0; i < waits.size(); ++i)
    waits[i] = {static_cast<int32_t>((i + 1) % waits.size())};
  const std::vector<Finding> findings = explain(still_of(waits));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].ranks.size(), 30000);
}

}  // namespace
}  // namespace shardproof
