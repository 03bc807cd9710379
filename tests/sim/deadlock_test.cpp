// Tests of deadlock diagnosis on random wait-for graphs, against brute force, and of planned calls.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/sim/analysis/deadlock.h"
#include "shardproof/sim/analysis/planned_calls.h"

namespace shardproof::deadlock_test {
namespace {

// A world in which rank r's call waits for the ranks `waits[r]`; empty: the rank has ended.
WaitForGraph graph_of(const std::vector<std::vector<int32_t>>& waits) {
  WaitForGraph graph;
  graph.world = static_cast<int64_t>(waits.size());
  std::vector<int32_t> call_of(waits.size(), -1);
  for (size_t rank = 0; rank < waits.size(); ++rank) {
    if (waits[rank].empty()) continue;
    call_of[rank] = static_cast<int32_t>(graph.blocked.size());
    BlockedCall call;
    call.ranks = Lanes::one(static_cast<int64_t>(rank));
    call.line = static_cast<int>(rank) + 1;
    call.edge = static_cast<int32_t>(graph.blocked.size());
    graph.blocked.push_back(call);
  }
  for (const auto& ranks : waits) {
    if (ranks.empty()) continue;
    WaitEdge edge;
    edge.ranks = ranks;
    for (int32_t rank : ranks) {
      const int32_t call = call_of[static_cast<size_t>(rank)];
      if (call >= 0)
        edge.holders.push_back(call);
      else
        edge.missing.push_back(rank), graph.gone.emplace(rank, "has ended");
    }
    graph.edges.push_back(edge);
  }
  return graph;
}

// Returns the ranks that reach themselves, by brute force.
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

TEST(WaitForGraph, RandomGraphs_GiveRanksOfBruteForce) {
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
    const std::vector<Finding> findings = diagnose_deadlock(graph_of(waits));
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

// Ranks that wait for each other with no call left; rank r waits for `lacks[r]` (-1: it has ended).
WaitForGraph lacking_calls(const std::vector<int32_t>& lacks) {
  WaitForGraph graph;
  graph.world = static_cast<int64_t>(lacks.size());
  for (size_t rank = 0; rank < lacks.size(); ++rank) {
    if (lacks[rank] < 0) continue;
    BlockedCall call;
    call.ranks = Lanes::one(static_cast<int64_t>(rank));
    call.line = static_cast<int>(rank) + 1;
    call.edge = static_cast<int32_t>(graph.edges.size());
    graph.blocked.push_back(call);
    WaitEdge edge;
    edge.what = "to send";
    edge.ranks = edge.missing = {lacks[rank]};
    graph.edges.push_back(edge);
    graph.gone.emplace(lacks[rank], "has ended");
  }
  return graph;
}

TEST(WaitForGraph, RanksWithoutCallsLeft_AreDeadlock) {
  std::vector<Finding> findings = diagnose_deadlock(lacking_calls({1, 0, 1, 2}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::deadlock);
  EXPECT_EQ(findings[0].ranks, Lanes::range(0, 2));
  EXPECT_EQ(findings[0].fix, "let every send have its receive, and every receive its send");
  // Rank 3 is missing, and there is a cycle, too.
  findings = diagnose_deadlock(lacking_calls({1, 0, 3, -1}));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].verdict, Verdict::missing_rank);
  EXPECT_EQ(findings[1].ranks, Lanes::one(3));
  // A chain that ends at a rank that has ended.
  findings = diagnose_deadlock(lacking_calls({1, 2, -1}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(findings[0].ranks, Lanes::range(1, 3));
}

// --- calls left out

using Matrix = std::vector<std::vector<char>>;

Matrix reach_of(const Matrix& edges) {
  Matrix reach = edges;
  for (size_t k = 0; k < reach.size(); ++k)
    for (size_t i = 0; i < reach.size(); ++i)
      for (size_t j = 0; j < reach.size(); ++j)
        reach[i][j] = reach[i][j] || (reach[i][k] && reach[k][j]);
  return reach;
}

Matrix no_edges(size_t n) { return Matrix(n, std::vector<char>(n, 0)); }

// The expected ranks of deadlocks and the missing ranks, by brute force. `waits`: the call of rank
// i waits for rank j; `out`: rank j never makes that call.
struct Expected {
  Lanes circles, missing;
};

Expected expected_of(const Matrix& waits, const Matrix& out) {
  const size_t n = waits.size();
  const Matrix all = reach_of(waits);
  Matrix holds = no_edges(n), lacks = no_edges(n);
  std::vector<char> stuck(n, 1);  // all ranks that miss i's call wait themselves
  Matrix misses = no_edges(n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      if (!waits[i][j]) continue;
      const bool ended = std::count(waits[j].begin(), waits[j].end(), 1) == 0;
      misses[i][j] = ended || (out[i][j] && all[j][i]);
      holds[i][j] = !misses[i][j];
      if (ended) stuck[i] = 0;
    }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) lacks[i][j] = misses[i][j] && stuck[i];
  const Matrix held = reach_of(holds), lacked = reach_of(lacks);
  Matrix both = holds;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) both[i][j] = holds[i][j] || lacks[i][j];
  both = reach_of(both);
  std::vector<int32_t> circles, missing;
  for (size_t i = 0; i < n; ++i) {
    if (held[i][i] || lacked[i][i]) circles.push_back(static_cast<int32_t>(i));
    bool told = std::count(lacks[i].begin(), lacks[i].end(), 1) > 0;
    bool reaches = false;
    for (size_t j = 0; j < n; ++j) reaches = reaches || (lacked[j][j] && (i == j || both[i][j]));
    for (size_t j = 0; j < n; ++j)
      if (misses[i][j] && !(told && reaches)) missing.push_back(static_cast<int32_t>(j));
  }
  return {Lanes::of(circles), Lanes::of(missing)};
}

TEST(WaitForGraph, CycleThroughACallLeftOut_IsMissingRank) {
  const Rng rng(9, 2);
  uint64_t draw = 0;
  int broken = 0;
  for (int round = 0; round < 1000; ++round) {
    const size_t n = static_cast<size_t>(rng.integer(draw++, 2, 8));
    Matrix waits = no_edges(n), out = no_edges(n);
    std::vector<std::vector<int32_t>> lists(n);
    for (size_t i = 0; i < n; ++i)
      for (int64_t k = rng.integer(draw++, 0, 3); k > 0; --k) {
        const size_t j = static_cast<size_t>(rng.integer(draw++, 0, static_cast<int64_t>(n)));
        if (waits[i][j]) continue;
        waits[i][j] = 1;
        out[i][j] = rng.integer(draw++, 0, 3) == 0;
        lists[i].push_back(static_cast<int32_t>(j));
      }
    WaitForGraph graph = graph_of(lists);
    const std::vector<Finding> before = diagnose_deadlock(graph);
    for (const BlockedCall& call : graph.blocked) {
      WaitEdge& edge = graph.edges[static_cast<size_t>(call.edge)];
      for (const int32_t rank : edge.ranks)
        if (out[static_cast<size_t>(call.ranks[0])][static_cast<size_t>(rank)] &&
            std::find(edge.missing.begin(), edge.missing.end(), rank) == edge.missing.end())
          edge.left_out.push_back(rank);
    }
    const Expected expected = expected_of(waits, out);
    Lanes circles, missing;
    const std::vector<Finding> findings = diagnose_deadlock(graph);
    for (const Finding& finding : findings)
      (finding.verdict == Verdict::deadlock ? circles : missing) = finding.ranks;
    EXPECT_EQ(circles, expected.circles) << "round " << round;
    EXPECT_EQ(missing, expected.missing) << "round " << round;
    broken += findings != before;
  }
  EXPECT_GT(broken, 50);
}

// Rank 0 waits in a group for rank 1, which waits elsewhere for rank 0.
TEST(WaitForGraph, TwoRanks_LeaveOutOneCallOrNone) {
  WaitForGraph graph = graph_of({{1}, {0}});
  EXPECT_EQ(diagnose_deadlock(graph).at(0).verdict, Verdict::deadlock);
  graph.edges[0].left_out = {1};
  const std::vector<Finding> findings = diagnose_deadlock(graph);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(findings[0].ranks, Lanes::one(1));
  EXPECT_EQ(findings[0].line, 1);
  // Each rank leaves out what the other waits for.
  graph.edges[1].left_out = {0};
  EXPECT_EQ(diagnose_deadlock(graph).at(0).verdict, Verdict::deadlock);
}

// A call that was left out is no cause outside of a cycle: rank 1 waits for a rank that has ended.
TEST(WaitForGraph, CallLeftOutOutsideACycle_IsNotNamed) {
  WaitForGraph graph = graph_of({{1}, {2}, {}});
  graph.edges[0].left_out = {1};
  const std::vector<Finding> findings = diagnose_deadlock(graph);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].ranks, Lanes::one(2));
}

Collective call_on(const Group& group, CollectiveKind kind) {
  Collective call;
  call.kind = kind;
  call.group = group;
  return call;
}

TEST(PlannedCalls, FewerCallsInAll_AreLacking) {
  const Group group = Group::world(3);
  PlannedCalls planned;
  const Collective reduction = call_on(group, CollectiveKind::all_reduce);
  planned.add(reduction, {{0}, {1}, {2}});
  planned.add(call_on(group, CollectiveKind::barrier), {{0}, {2}});
  EXPECT_EQ(planned.lacking({1, 2}, {0}, reduction), std::vector<int32_t>{1});
  EXPECT_TRUE(planned.lacking({1}, {}, reduction).empty());
  const Collective sends = call_on(group, CollectiveKind::send);
  const Collective receives = call_on(group, CollectiveKind::recv);
  planned.add(receives, {{1, 0}});
  EXPECT_EQ(planned.lacking({0}, {1}, receives), std::vector<int32_t>{0});
  planned.add(sends, {{0, 2}});
  EXPECT_EQ(planned.lacking({0}, {1}, receives), std::vector<int32_t>{0});
  planned.add(sends, {{0, 1}});
  EXPECT_TRUE(planned.lacking({0}, {1}, receives).empty());
}

TEST(PlannedCalls, SignalsAnswerWaits_WhateverTheirGroup) {
  const Group world = Group::world(2), pair = Group::of_ranks("pair", {0, 1});
  Collective wait = call_on(pair, CollectiveKind::wait_signal);
  wait.repeat = 2;
  PlannedCalls planned;
  planned.add(wait, {{1, 0}});
  planned.add(call_on(world, CollectiveKind::signal), {{0, 1}});
  EXPECT_EQ(planned.lacking({0}, {1}, wait), std::vector<int32_t>{0});
  planned.add(call_on(world, CollectiveKind::put), {{0, 1}});
  EXPECT_TRUE(planned.lacking({0}, {1}, wait).empty());
}

TEST(WaitForGraph, NothingBlocked_GivesNoFinding) { EXPECT_TRUE(diagnose_deadlock({}).empty()); }

// One cycle through 30,000 ranks: neither recursion nor quadratic time.
TEST(WaitForGraph, LongCycle_IsFound) {
  std::vector<std::vector<int32_t>> waits(30000);
  for (size_t i = 0; i < waits.size(); ++i)
    waits[i] = {static_cast<int32_t>((i + 1) % waits.size())};
  const std::vector<Finding> findings = diagnose_deadlock(graph_of(waits));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].ranks.size(), 30000);
}

// Calls of one collective share what they await: the time is linear in calls, not in calls times
// members. Even ranks wait in one collective, odd ranks in another one, which they reach first.
TEST(WaitForGraph, TwoCollectivesOfManyRanks_AreDiagnosed) {
  constexpr int32_t kRanks = 40000;
  WaitForGraph graph;
  graph.world = kRanks;
  graph.edges.resize(2);
  std::vector<int32_t> odd, all;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    BlockedCall call;
    call.ranks = Lanes::one(rank);
    call.line = rank % 2 + 1;
    call.edge = rank % 2;
    graph.blocked.push_back(call);
    WaitEdge& other = graph.edges[static_cast<size_t>(1 - rank % 2)];
    other.ranks.push_back(rank);
    other.holders.push_back(rank);
    if (rank % 2 == 1) odd.push_back(rank);
    all.push_back(rank);
  }
  const std::vector<Finding> cycle = diagnose_deadlock(graph);
  ASSERT_EQ(cycle.size(), 1u);
  EXPECT_EQ(cycle[0].verdict, Verdict::deadlock);
  EXPECT_EQ(cycle[0].ranks, Lanes::of(all));
  graph.edges[0].left_out = odd;
  const std::vector<Finding> missing = diagnose_deadlock(graph);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(missing[0].ranks, Lanes::of(odd));
  EXPECT_EQ(missing[0].line, 1);
}

}  // namespace
}  // namespace shardproof::deadlock_test
