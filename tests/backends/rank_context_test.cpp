// Tests of rank functions in C++ (rank_context.h): values, times, many ranks, stopped ranks.
#include "shardproof/backends/api/rank_context.h"

#include <gtest/gtest.h>

#include "shardproof/sim/cost/cost_model.h"

namespace shardproof::rank_context_test {
namespace {

Tensor number(double value) { return tensor_of(DType::f32, {1}, {value}); }

TEST(Facade, AllReduce_OverWorld_GivesSum) {
  std::vector<double> got(5);
  const WorldReport report = run_ranks(5, [&](RankContext& me) {
    const Tensor y = me.all_reduce(number(double(me.rank() + 1)));
    got[static_cast<size_t>(me.rank())] = values_of(y)[0];
  });
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(got, std::vector<double>(5, 15.0));
  ASSERT_EQ(report.records.size(), 1u);
  EXPECT_EQ(report.records[0].ranks, Lanes::range(0, 5));
}

TEST(Facade, MessageChain_VisitsEveryRank) {
  constexpr int64_t kRanks = 20;
  double last = 0;
  const WorldReport report = run_ranks(kRanks, [&](RankContext& me) {
    double value = 0;
    if (me.rank() > 0) value = values_of(me.recv(DType::f32, {1}, me.rank() - 1, me.world()))[0];
    if (me.rank() + 1 < kRanks) {
      me.send(number(value + 1), me.rank() + 1, me.world());
    } else {
      last = value;
    }
  });
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(last, kRanks - 1);
}

TEST(Facade, GroupedExchange_DoesNotDeadlock) {
  std::vector<double> got(4);
  const WorldReport report = run_ranks(4, [&](RankContext& me) {
    CallGroup group = me.group();
    group.send(number(double(me.rank())), (me.rank() + 1) % 4, me.world());
    const Tensor y = group.recv(DType::f32, {1}, (me.rank() + 3) % 4, me.world());
    me.run(group);
    got[static_cast<size_t>(me.rank())] = values_of(y)[0];
  });
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(got, (std::vector<double>{3, 0, 1, 2}));
}

TEST(Facade, KernelsAndLinks_TakeVirtualTime) {
  RanksOptions options;
  options.world.cost = flat_machine({{5'000'000}, 1e9}, Roofline{1e12, 1e12});
  const WorldReport report = run_ranks(
      2,
      [&](RankContext& me) {
        me.compute(me.rank() == 1 ? 3e6 : 1e6, 0);  // 3 us and 1 us
        me.all_reduce(
            tensor_of(DType::f32, {250}, std::vector<double>(250, 1.0)));  // 2 x (5 us + 0.5 us)
      },
      options);
  EXPECT_EQ(to_string(report.time), "14 us");
  EXPECT_EQ(report.rank_times, (std::vector<Duration>{{14'000'000}, {14'000'000}}));
}

// Sixteen thousand ranks at once: more stacks than have a guard.
TEST(Facade, SixteenThousandRanks_Run) {
  constexpr int64_t kRanks = 16384;
  RanksOptions options;
  options.fibers.guarded_stacks = 1000;
  int64_t right = 0;
  const WorldReport report = run_ranks(
      kRanks,
      [&](RankContext& me) { right += values_of(me.all_reduce(number(1)))[0] == double(kRanks); },
      options);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(right, kRanks);
}

// Only one rank can continue at a time: the time must not grow with the square of the ranks.
TEST(Facade, LongMessageChain_TakesLinearTime) {
  constexpr int64_t kRanks = 8192;
  for (const ScheduleKind kind : {ScheduleKind::fifo, ScheduleKind::seeded}) {
    const int64_t ranks = kind == ScheduleKind::fifo ? kRanks : 64;
    RanksOptions options;
    options.world.schedule.kind = kind;
    double last = 0;
    const WorldReport report = run_ranks(
        ranks,
        [&](RankContext& me) {
          Tensor x = number(1);
          if (me.rank() > 0)
            x = number(1 + values_of(me.recv(DType::f32, {1}, me.rank() - 1, me.world()))[0]);
          if (me.rank() + 1 < ranks)
            me.send(x, me.rank() + 1, me.world());
          else
            last = values_of(x)[0];
        },
        options);
    EXPECT_TRUE(report.findings.empty());
    EXPECT_EQ(last, static_cast<double>(ranks));
  }
}

TEST(Facade, BlockedRank_WithOnStopReturnCalls_IsNotUnwound) {
  RanksOptions options;
  options.on_stop = OnStop::return_calls;
  int64_t told = 0;
  const WorldReport report = run_ranks(
      2,
      [&](RankContext& me) {
        me.send(number(1), 1 - me.rank(), me.world());
        told += me.stopped();
      },
      options);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::deadlock);
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace shardproof::rank_context_test
