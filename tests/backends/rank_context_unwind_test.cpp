// Tests of exceptions thrown through fibers. Builds with the address sanitizer leave them out: this
// system's Boost.Context does not support it.
#include <gtest/gtest.h>

#include <stdexcept>

#include "shardproof/backends/api/rank_context.h"

namespace shardproof::rank_context_unwind_test {
namespace {

Tensor number(double value) { return tensor_of(DType::f32, {1}, {value}); }

struct CountsItsEnd {
  int& ends;
  ~CountsItsEnd() { ++ends; }
};

TEST(FacadeUnwind, BlockedRank_IsUnwound) {
  int ends = 0, after = 0;
  const WorldReport report = run_ranks(3, [&](RankContext& me) {
    CountsItsEnd guard{ends};
    if (me.rank() == 2) return;
    me.all_reduce(number(1));
    ++after;
  });
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(report.findings[0].ranks, Lanes::one(2));
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(after, 0);
}

TEST(FacadeUnwind, Exception_EndsItsRank_AndWaitingRanksMissIt) {
  int64_t others = 0;
  const WorldReport report = run_ranks(4, [&](RankContext& me) {
    const Group pair =
        Group::of_ranks(me.rank() < 2 ? "low" : "high",
                        me.rank() < 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2, 3});
    if (me.rank() == 1) throw std::runtime_error("no such file");
    me.all_reduce(number(1), {}, pair);
    ++others;
  });
  EXPECT_EQ(others, 2);
  EXPECT_EQ(report.rank_errors, (std::vector<RankError>{{1, "no such file"}}));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(report.findings[0].ranks, Lanes::one(1));
}

TEST(FacadeUnwind, InvalidCall_EndsItsRank_WithReason) {
  const WorldReport report = run_ranks(3, [&](RankContext& me) {
    if (me.rank() == 0) me.send(number(1), 3, me.world());
    if (me.rank() == 1) me.all_reduce(tensor_of(DType::boolean, {1}, {1}));
    Collective scatter;
    scatter.kind = CollectiveKind::reduce_scatter;
    scatter.group = me.world();
    if (me.rank() == 2) me.collective(scatter, number(1));
  });
  ASSERT_EQ(report.rank_errors.size(), 3u);
  EXPECT_NE(report.rank_errors[0].message.find("to=3"), std::string::npos);
  EXPECT_NE(report.rank_errors[1].message.find("bool"), std::string::npos);
  EXPECT_NE(report.rank_errors[2].message.find("divide"), std::string::npos);
}

TEST(FacadeUnwind, Mismatch_UnwindsAllMembers) {
  int after = 0;
  const WorldReport report = run_ranks(3, [&](RankContext& me) {
    me.all_reduce(number(1), {me.rank() == 0 ? ReduceOp::max : ReduceOp::sum});
    ++after;
  });
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].verdict, Verdict::mismatch);
  EXPECT_EQ(report.findings[0].ranks, Lanes::one(0));
  EXPECT_EQ(after, 0);
}

}  // namespace
}  // namespace shardproof::rank_context_unwind_test
