// Tests rank programs whose ranks take different branches, in a world that is large enough for
// cohorts of ranks of one branch. Each program has one outcome in each grouping, with the values or
// findings that are stated here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/tests/engine/outcome_text.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::branching_ranks_test {
namespace {

using Lines = std::vector<std::string>;

constexpr int64_t kRanks = 64;

// Returns a job of 64 ranks on the axes a=8, b=8. Rank r holds x = r, of shape [1].
Job job_of_ranks(Lines lines) {
  lines.insert(lines.begin(), "x = x * 0 + rank");
  Job job = job_of("a=8, b=8", {});
  add_input(job, "x", Dims{1});
  add_ranks(job, "all", Lanes::range(0, kRanks), lines);
  job.cost = flat_machine({Duration{10'000'000}, 1e9});
  job.keep = {"x"};
  return job;
}

// Returns the value that each rank holds of x at the end.
std::vector<double> values_of_x(const Outcome& outcome) {
  std::vector<double> values(kRanks, -1);
  const ValueInfo& info = outcome.values.at("x");
  for (const RecordedShard& copy : info.copies)
    for (int64_t i = 0; i < copy.lanes.size(); ++i)
      values[static_cast<size_t>(copy.lanes[i])] = values_of(copy.tensor)[0];
  if (info.value) values.assign(kRanks, values_of(*info.value)[0]);
  return values;
}

// Returns the outcome with the records and the values of all ranks as text.
std::string text_of_ranks(const Outcome& outcome) {
  std::string text = text_of(outcome);
  for (const Record& record : outcome.world.records) text += to_string(record) + "\n";
  if (outcome.values.contains("x"))
    text += fmt::format("\n{}", fmt::join(values_of_x(outcome), " "));
  return text;
}

// Runs a program in each grouping, expects one outcome, and returns it.
Outcome expect_one_outcome(const Lines& lines) {
  Job job = job_of_ranks(lines);
  const Outcome first = check(job, builtin_registries());
  for (const CohortPolicy grouping : {CohortPolicy::by_branch, CohortPolicy::one_by_one}) {
    job.grouping = grouping;
    EXPECT_EQ(text_of_ranks(check(job, builtin_registries())), text_of_ranks(first))
        << fmt::format("{}", fmt::join(lines, "\n"));
  }
  return first;
}

template <class Expected>
void expect_values(const Lines& lines, Expected expected) {
  SCOPED_TRACE(fmt::format("{}", fmt::join(lines, "\n")));
  const Outcome outcome = expect_one_outcome(lines);
  EXPECT_TRUE(outcome.findings.empty()) << to_string(outcome.findings[0]);
  const std::vector<double> values = values_of_x(outcome);
  for (int64_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(values[static_cast<size_t>(rank)], static_cast<double>(expected(rank))) << rank;
}

void expect_finding(const Lines& lines, Verdict verdict, int line, const std::string& ranks,
                    const std::string& headline) {
  SCOPED_TRACE(fmt::format("{}", fmt::join(lines, "\n")));
  const Outcome outcome = expect_one_outcome(lines);
  ASSERT_EQ(outcome.findings.size(), 1u);
  const Finding& finding = outcome.findings[0];
  EXPECT_EQ(finding.verdict, verdict);
  EXPECT_EQ(finding.line, line);
  EXPECT_EQ(to_string(finding.ranks), ranks);
  EXPECT_EQ(finding.headline, headline);
}

// The local backend; stores the number of cohorts of each world.
class CohortCounter : public Backend {
 public:
  std::string name() const override { return inner_->name(); }
  std::string summary() const override { return inner_->summary(); }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    cohorts.push_back(0);
    return std::make_unique<CountingWorld>(inner_->start(options), cohorts.back());
  }
  std::deque<int64_t> cohorts;  // addresses are stable

 private:
  class CountingWorld : public World {
   public:
    CountingWorld(std::unique_ptr<World> inner, int64_t& cohorts)
        : inner_(std::move(inner)), cohorts_(cohorts) {}
    ExecutionContext& open(const Lanes& cohort) override {
      ++cohorts_;
      return inner_->open(cohort);
    }
    bool progress() override { return inner_->progress(); }
    std::optional<std::vector<int32_t>> collect_ready_ranks() override {
      return inner_->collect_ready_ranks();
    }
    WorldReport close() override { return inner_->close(); }

   private:
    std::unique_ptr<World> inner_;
    int64_t& cohorts_;
  };
  std::shared_ptr<Backend> inner_ = instrumented(local_backend());
};

// Returns the number of cohorts of each run of the program, without numbers that repeat.
std::string cohorts_of(const Lines& lines) {
  const auto counter = std::make_shared<CohortCounter>();
  Registries registries{builtin_registries().ops, {counter}};
  check(job_of_ranks(lines), registries);
  const auto last = std::unique(counter->cohorts.begin(), counter->cohorts.end());
  return fmt::format("{}", fmt::join(counter->cohorts.begin(), last, " "));
}

const std::string kSendNext = "send(x, to=(rank + 1) % world)";
const std::string kRecvPrev = "y = recv(like=x, from=(rank + world - 1) % world)";
const std::string kWorld = "group world [0 1 2 3 4 5 6 7 8 9 10 11 12 13 ... 63]";

TEST(BranchingRanks, RingOfEvenAndOddRanks_MovesValues) {
  const auto moved_by_3 = [](int64_t rank) { return (rank + kRanks - 3) % kRanks; };
  expect_values(
      {"for i in range(3):", "  if rank % 2 == 0:", "    " + kSendNext, "    " + kRecvPrev,
       "  else:", "    " + kRecvPrev, "    " + kSendNext, "  x = y * 1"},
      moved_by_3);
  expect_values({"for i in range(3):", "  if rank % 2 == 0: " + kSendNext, "  " + kRecvPrev,
                 "  if rank % 2 == 1: " + kSendNext, "  x = y * 1"},
                moved_by_3);
  expect_values(
      {"for i in range(3):", "  if (rank + i) % 2 == 0:", "    " + kSendNext, "    " + kRecvPrev,
       "  else:", "    " + kRecvPrev, "    " + kSendNext, "  x = y + i"},
      [&](int64_t rank) { return moved_by_3(rank) + 3; });
}

TEST(BranchingRanks, BranchesOfThreeAndFourKinds_MoveValues) {
  expect_values({"if rank % 3 == 0:", "  " + kSendNext, "  " + kRecvPrev, "  x = y * 2",
                 "else:", "  " + kRecvPrev, "  " + kSendNext,
                 "  if rank % 3 == 1:", "    x = y + 1", "  else:", "    x = y - 1"},
                [](int64_t rank) {
                  const int64_t y = (rank + kRanks - 1) % kRanks;
                  return rank % 3 == 0 ? y * 2 : rank % 3 == 1 ? y + 1 : y - 1;
                });
  expect_values({"if rank % 2 == 0:", "  if rank % 4 == 0:", "    send(x, to=rank + 1)",
                 "    y = recv(like=x, from=rank + 1)",
                 "  else:", "    y = recv(like=x, from=rank + 1)", "    send(x, to=rank + 1)",
                 "else:", "  if rank % 4 == 1:", "    y = recv(like=x, from=rank - 1)",
                 "    send(x, to=rank - 1)", "  else:", "    send(x, to=rank - 1)",
                 "    y = recv(like=x, from=rank - 1)", "x = x + 2 * y"},
                [](int64_t rank) { return rank + 2 * (rank ^ 1); });
  expect_values({"for i in range(4):", "  if rank % 4 == i: " + kSendNext,
                 "  if (rank + 3) % 4 == i: x = recv(like=x, from=(rank + world - 1) % world)"},
                [](int64_t rank) { return (rank + kRanks - 1) % kRanks / 4 * 4; });
}

TEST(BranchingRanks, PipelineAndHypercube_ComputeValues) {
  expect_values(
      {"if rank == 0:", "  send(x + 2, to=1)", "else:", "  x = recv(like=x, from=rank - 1)",
       "  if rank < world - 1: send(x + 2, to=rank + 1)"},
      [](int64_t rank) { return 2 * rank; });
  expect_values(
      {"for i in range(6):", "  if rank // 2 ** i % 2 == 0:", "    send(x, to=rank + 2 ** i)",
       "    y = recv(like=x, from=rank + 2 ** i)", "  else:",
       "    y = recv(like=x, from=rank - 2 ** i)", "    send(x, to=rank - 2 ** i)", "  x = x + y"},
      [](int64_t) { return kRanks * (kRanks - 1) / 2; });
}

Lines hypercube(const std::string& send_up, const std::string& recv_down) {
  return {"y = x",
          "for i in range(6):",
          "  x = x + rank * i",
          "  if rank // 2 ** i % 2 == 0:",
          "    " + send_up,
          "    y = recv(like=x, from=rank + 2 ** i)",
          "    x = x + y",
          "  else:",
          "    " + recv_down,
          "    send(x, to=rank - 2 ** i)",
          "    x = y + x"};
}

Lines pipeline(const std::string& send, const std::string& recv) {
  return {
      "h = x",       "for m in range(4):",     "  h = x * (m + 1)", "  if rank > 0:", "    " + recv,
      "  h = h + 1", "  if rank < world - 1:", "    " + send,       "x = h"};
}

const std::string kSendUp = "send(x, to=rank + 2 ** i)";
const std::string kRecvDown = "y = recv(like=x, from=rank - 2 ** i)";
const std::string kSendStage = "send(h, to=rank + 1)";
const std::string kRecvStage = "h = recv(like=x, from=rank - 1)";

TEST(BranchingRanks, RoundsOfHypercubeAndPipeline_ComputeValues) {
  // In round i all ranks of a block of 2^(i+1) ranks get the sum of the block.
  std::vector<double> x(kRanks);
  for (size_t rank = 0; rank < kRanks; ++rank) x[rank] = static_cast<double>(rank);
  for (size_t i = 0; i < 6; ++i) {
    for (size_t rank = 0; rank < kRanks; ++rank) x[rank] += static_cast<double>(rank * i);
    const std::vector<double> before = x;
    for (size_t rank = 0; rank < kRanks; ++rank) x[rank] += before[rank ^ (size_t{1} << i)];
  }
  expect_values(hypercube(kSendUp, kRecvDown),
                [&](int64_t rank) { return x[static_cast<size_t>(rank)]; });
  expect_values(pipeline(kSendStage, kRecvStage), [](int64_t rank) { return rank + 1; });
}

TEST(BranchingRanks, CohortOfAllRanks_RunsBranches_IfNoRankMakesBothEndsOfAMessage) {
  EXPECT_EQ(cohorts_of(hypercube(kSendUp, kRecvDown)), "1");
  EXPECT_EQ(cohorts_of({"if rank % 2 == 0:", "  " + kSendNext, "  " + kRecvPrev,
                        "else:", "  " + kRecvPrev, "  " + kSendNext}),
            "1");
  EXPECT_EQ(cohorts_of({"if rank == 0:", "  for i in range(1, world):",
                        "    x = recv(like=x, from=i)", "else:", "  send(x, to=0)"}),
            "1");
  // Ranks 61 and 63 each send to a rank of their own branch.
  EXPECT_EQ(cohorts_of({"if rank % 2 == 0 and rank < 62 or rank == 63:", "  " + kSendNext,
                        "  " + kRecvPrev, "else:", "  " + kRecvPrev, "  " + kSendNext}),
            "4");
  EXPECT_EQ(cohorts_of(pipeline(kSendStage, kRecvStage)), "64");
}

// Returns the lines with another one in place of the one at `index`.
Lines with_line(Lines lines, size_t index, const Lines& other) {
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(index));
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(index), other.begin(), other.end());
  return lines;
}

TEST(BranchingRanks, HypercubeWithAnError_HasItsFinding) {
  const Lines right = hypercube(kSendUp, kRecvDown);
  const Lines wrong_peer = {"    if rank == 9 and i == 2: send(x, to=rank + 1)",
                            "    else: " + kSendUp};
  expect_finding(with_line(right, 4, wrong_peer), Verdict::missing_rank, 6, "9 10",
                 "ranks 9 10 never make the other end of messages in " + kWorld);
  expect_finding(with_line(right, 8, {"    if rank != 21 or i != 2: " + kRecvDown}),
                 Verdict::missing_rank, 6, "21",
                 "rank 21 leaves out a receive from rank 17 in " + kWorld);
  Lines swapped = right;
  std::swap(swapped[8], swapped[9]);
  expect_finding(swapped, Verdict::deadlock, 6, "0-63", "deadlock: 64 of 64 ranks can never go on");
}

TEST(BranchingRanks, PipelineWithAnError_HasItsFinding) {
  const Lines right = pipeline(kSendStage, kRecvStage);
  const Lines wrong_peer = {"    if rank == 10 and m == 2: send(h, to=rank + 2)",
                            "    else: " + kSendStage};
  expect_finding(with_line(right, 7, wrong_peer), Verdict::missing_rank, 9, "12",
                 "rank 12 leaves out a receive from rank 10 in " + kWorld);
  expect_finding(with_line(right, 4, {"    if rank != 20 or m != 1: " + kRecvStage}),
                 Verdict::missing_rank, 9, "20",
                 "rank 20 never receives from rank 19 in " + kWorld);
  // Each stage waits for the gradient of the next one before it receives and sends.
  Lines both_ways = right;
  both_ways.insert(both_ways.begin() + 8, "  if rank > 0: send(h, to=rank - 1)");
  both_ways.insert(both_ways.begin() + 3, "  if rank < world - 1: g = recv(like=x, from=rank + 1)");
  expect_finding(both_ways, Verdict::deadlock, 5, "62 63",
                 "deadlock: 64 of 64 ranks can never go on");
}

TEST(BranchingRanks, CollectivesInsideBranches_ReduceTheirGroups) {
  expect_values({"if index(a) % 2 == 0:", "  send(x, to=rank + 8)",
                 "  y = all_reduce(x, sum, group=b)", "else:", "  y = recv(like=x, from=rank - 8)",
                 "  y = all_reduce(y, max, group=b)", "x = all_reduce(y, sum, group=a)"},
                // Rows 0, 2, 4, 6 have sums 28 + 64 * row, rows 1, 3, 5, 7 the largest one before.
                [](int64_t) { return 4 * 28 + 64 * (0 + 2 + 4 + 6) + 7 + 23 + 39 + 55; });
}

TEST(BranchingRanks, SignalsStreamsAndSyncInsideBranches_OrderValues) {
  expect_values({"if rank % 2 == 0:", "  put(x, to=rank + 1, slot=2)", "else:",
                 "  wait_signal(from=rank - 1, slot=2)", "  x = slot(2, like=x)", "  " + kSendNext,
                 "if rank % 2 == 0: x = recv(like=x, from=(rank + world - 1) % world)"},
                [](int64_t rank) { return (rank + kRanks - 1) % kRanks / 2 * 2; });
  expect_values({"if rank % 2 == 0:", "  on side: y = recv(like=x, from=rank + 1)", "  z = x * 2",
                 "  send(z, to=rank + 1)", "  wait(y)", "  x = y + z", "else:",
                 "  z = recv(like=x, from=rank - 1)", "  send(x, to=rank - 1)", "  x = x - z"},
                [](int64_t rank) { return rank % 2 == 0 ? 3 * rank + 1 : rank - 2 * (rank - 1); });
  expect_values({"if rank % 2 == 0:", "  y = recv(like=x, from=rank + 1)", "  sync(y)",
                 "  send(y, to=rank + 1)", "else:", "  send(x, to=rank - 1)",
                 "  y = recv(like=x, from=rank - 1)", "x = y + 1"},
                [](int64_t rank) { return (rank | 1) + 1; });
}

TEST(BranchingRanks, RanksThatAllSendFirst_AreADeadlock) {
  expect_finding({"if rank % 2 == 0:", "  " + kSendNext, "  " + kRecvPrev,
                  "else:", "  " + kSendNext, "  " + kRecvPrev},
                 Verdict::deadlock, 3, "0-63", "deadlock: 64 of 64 ranks can never go on");
}

TEST(BranchingRanks, SendThatOneRankLeavesOut_IsMissing) {
  expect_finding({"if rank % 2 == 0:", "  " + kSendNext, "  " + kRecvPrev,
                  "else:", "  " + kRecvPrev, "  if rank != 5: " + kSendNext},
                 Verdict::missing_rank, 4, "5", "rank 5 never sends to rank 6 in " + kWorld);
}

TEST(BranchingRanks, CollectiveThatSomeRanksLeaveOut_IsMissing) {
  expect_finding({"if index(a) % 2 == 0:", "  send(x, to=rank + 8)",
                  "  if index(b) != 3: y = all_reduce(x, sum, group=b)", "else:",
                  "  y = recv(like=x, from=rank - 8)", "  y = all_reduce(y, max, group=b)"},
                 Verdict::missing_rank, 4, "3 19 35 51",
                 "ranks 3 19 35 51 never make call 1 of group b [0 1 2 3 4 5 6 7]");
  expect_finding(
      {"if index(a) % 2 == 0:", "  send(x, to=rank + 8)", "  y = all_reduce(x, sum, group=b)",
       "else:", "  y = all_reduce(x, sum, group=[a, b])", "  y = recv(like=x, from=rank - 8)"},
      Verdict::missing_rank, 6, "0-7 16-23 32-39 48-55",
      "ranks 0-7 16-23 32-39 48-55 never make call 1 of group a+b [0 1 2 3 4 5 6 7 8 9 "
      "10 11 12 13 ... 63]");
}

TEST(BranchingRanks, CallsOfTwoBranchesThatDiffer_AreAMismatch) {
  expect_finding({"if rank % 2 == 0:", "  " + kSendNext,
                  "else:", "  y = recv(shape=[2], from=(rank + world - 1) % world)"},
                 Verdict::mismatch, 3, "0-63",
                 "mismatch in " + kWorld + ", message 1 from rank 0 to rank 1");
  expect_finding(
      {"if rank % 2 == 0:", "  " + kSendNext,
       "else:", "  if rank == 7:", "    y = recv(shape=[2], from=(rank + world - 1) % world)",
       "  else:", "    y = recv(shape=[1], from=(rank + world - 1) % world)"},
      Verdict::mismatch, 3, "6 7", "mismatch in " + kWorld + ", message 1 from rank 6 to rank 7");
  expect_finding(
      {"if index(a) % 2 == 0:", "  send(x, to=rank + 8)", "  y = all_reduce(x, sum, group=a)",
       "else:", "  y = recv(like=x, from=rank - 8)", "  y = all_reduce(y, max, group=a)"},
      Verdict::mismatch, 4, "0-63", "mismatch in group a [0 8 16 24 32 40 48 56], call 1");
}

// Writes rounds of exchanges between ranks that differ in one bit. Each branch has its own order of
// send and receive, so some programs deadlock; some ranks leave a call out.
class RandomBranches {
 public:
  explicit RandomBranches(uint64_t seed) : rng_(seed, hash_text("branches")) {}

  Lines lines() {
    Lines lines;
    for (int64_t rounds = 1 + draw(4); rounds > 0; --rounds) {
      const int64_t bit = draw(6);
      add(lines, bit, draw(4) == 0 ? draw(6) : bit);
    }
    return lines;
  }

 private:
  int64_t draw(int64_t below) { return rng_.integer(draws_++, 0, below); }

  void add(Lines& lines, int64_t bit, int64_t bit_of_branch) {
    const std::string peer =
        fmt::format("rank + {} * (1 - 2 * (rank // {} % 2))", 1 << bit, 1 << bit);
    const std::string send = fmt::format("send(x, to={})", peer);
    const std::string recv = fmt::format("y = recv(like=x, from={})", peer);
    const bool as_default = draw(8) == 0;
    for (const bool first : {true, false}) {
      lines.push_back(first ? fmt::format("if rank // {} % 2 == {}:", 1 << bit_of_branch, draw(2))
                            : "else:");
      if (draw(6) == 0) lines.push_back("  x = x * 2");
      if (draw(20) == 0) lines.push_back("  all_reduce_(x, sum, group=b)");
      const std::string unless = draw(16) == 0 ? fmt::format("if rank != {}: ", draw(kRanks)) : "";
      if (first || as_default) {
        lines.insert(lines.end(), {"  " + unless + send, "  " + recv});
      } else {
        lines.insert(lines.end(), {"  " + recv, "  " + unless + send});
      }
    }
    lines.push_back("x = x + y");
    if (draw(4) == 0) lines.push_back("x = all_reduce(x, max, group=a)");
  }

  Rng rng_;
  uint64_t draws_ = 0;
};

TEST(BranchingRanks, RandomBranches_InAnyGrouping_HaveOneOutcome) {
  constexpr uint64_t kPrograms = 80;
  int64_t clean = 0;
  for (uint64_t seed = 0; seed < kPrograms; ++seed)
    clean += expect_one_outcome(RandomBranches(seed).lines()).findings.empty() ? 1 : 0;
  std::printf("random branches: %lld of %llu programs end\n", static_cast<long long>(clean),
              static_cast<unsigned long long>(kPrograms));
  EXPECT_GT(clean, 20);
  EXPECT_LT(clean, 70);
}

}  // namespace
}  // namespace shardproof::testing::branching_ranks_test
