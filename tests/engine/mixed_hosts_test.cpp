// Tests listings and C++ rank functions in one world: matching, verdicts and values do not depend
// on which of the two a rank runs.
#include <gtest/gtest.h>

#include "shardproof/backends/api/rank_context.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::mixed_hosts_test {
namespace {

Tensor number(double value) { return tensor_of(DType::f32, {1}, {value}); }

// Ranks 0-1 run the listing, ranks 2-3 the function.
Job mixed(const std::vector<std::string>& listing,
          const std::function<void(RankContext&)>& program) {
  Job job = job_of("tp=4", {});
  add_ranks(job, "0-1", Lanes::range(0, 2), listing);
  job.functions.push_back({Lanes::range(2, 4), program});
  job.keep = {"y"};
  return job;
}

double kept(const Outcome& outcome, const std::string& name) {
  return load_f64(outcome.values.at(name).copies.front().tensor.data(), DType::f32);
}

TEST(MixedHosts, ListingAndFunction_InOneCollective_AreMatched) {
  std::vector<double> got(4);
  const Job job = mixed({"x = zeros([1]) + rank", "y = all_reduce(x, sum)"}, [&](RankContext& me) {
    got[static_cast<size_t>(me.rank())] = values_of(me.all_reduce(number(double(me.rank()))))[0];
  });
  for (const ScheduleKind kind :
       {ScheduleKind::fifo, ScheduleKind::seeded, ScheduleKind::adversarial}) {
    Job scheduled = job;
    scheduled.schedule = {kind, 7};
    const Outcome outcome = check(scheduled, builtin_registries());
    EXPECT_TRUE(outcome.findings.empty());
    EXPECT_EQ(kept(outcome, "y"), 6);
    EXPECT_EQ(got, (std::vector<double>{0, 0, 6, 6}));
  }
}

// A function chooses its own dtypes and cannot run in f64, so only runs in its own dtypes are
// judged.
TEST(MixedHosts, RoundingOfAListing_WithFunctions_IsMeasured) {
  std::vector<double> got(4);
  Job job = mixed({"x = zeros([1]) + rank * 0.1", "y = all_reduce(x, sum)", "n = zeros([1]) + 3"},
                  [&](RankContext& me) {
                    got[static_cast<size_t>(me.rank())] =
                        values_of(me.all_reduce(number(0.3 * double(me.rank()))))[0];
                  });
  job.records_values = true;
  const Outcome outcome = check(job, builtin_registries());
  EXPECT_TRUE(outcome.findings.empty());
  int64_t moved = 0;
  for (const RecordedValue& value : outcome.recorded) {
    EXPECT_TRUE(value.measured) << value.id;
    for (const RecordedShard& part : value.parts)
      for (const double rounding : part.rounding) {
        EXPECT_NE(value.bound, "n");
        EXPECT_LT(rounding, 1e-5);
        ++moved;
      }
    if (value.bound == "y") {
      EXPECT_EQ(values_of(value.parts[0].tensor)[0], got[2]);
    }
  }
  EXPECT_GT(moved, 0);
}

TEST(MixedHosts, ListingAndFunction_SendToEachOther) {
  const Job job = mixed({"x = zeros([1]) + 5", "if rank == 0: send(x, to=3)", "y = zeros([1])",
                         "if rank == 1: y = recv(like=x, from=2)", "z = y * 1"},
                        [](RankContext& me) {
                          if (me.rank() == 3) {
                            const Tensor x = me.recv(DType::f32, {1}, 0, me.world());
                            me.send(x, 2, me.world());
                          } else {
                            me.send(me.recv(DType::f32, {1}, 3, me.world()), 1, me.world());
                          }
                        });
  Job kept_job = job;
  kept_job.keep = {"z"};
  const Outcome outcome = check(kept_job, builtin_registries());
  EXPECT_TRUE(outcome.findings.empty());
}

TEST(MixedHosts, Deadlock_NamesBothKinds) {
  const Job job = mixed(
      {"x = zeros([1])", "if rank == 0: y = recv(like=x, from=2)", "if rank == 0: send(x, to=2)"},
      [](RankContext& me) {
        if (me.rank() == 3) return;
        me.recv(DType::f32, {1}, 0, me.world());
        me.send(number(1), 0, me.world());
      });
  const Outcome outcome = check(job, builtin_registries());
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_EQ(outcome.findings[0].verdict, Verdict::deadlock) << to_string(outcome.findings[0]);
  EXPECT_EQ(outcome.findings[0].ranks, Lanes::of({0, 2}));
}

TEST(MixedHosts, Exception_EndsItsRankAlone) {
  const Job job = mixed({"x = zeros([1])", "y = all_reduce(x, sum)"}, [](RankContext& me) {
    if (me.rank() == 3) throw std::runtime_error("out of luck");
    me.all_reduce(number(1));
  });
  const Outcome outcome = check(job, builtin_registries());
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_EQ(outcome.findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(outcome.findings[0].ranks, Lanes::one(3));
  ASSERT_EQ(outcome.world.rank_errors.size(), 1u);
  EXPECT_EQ(outcome.world.rank_errors[0], (RankError{3, "out of luck"}));
}

}  // namespace
}  // namespace shardproof::testing::mixed_hosts_test
