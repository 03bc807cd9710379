// Tests of times computed from records.
#include <gtest/gtest.h>

#include "shardproof/sim/analysis/line_times.h"

namespace shardproof::line_times_test {
namespace {

constexpr int64_t kMicrosecond = 1000000;

Record work(int line, Lanes ranks, int64_t start, int64_t end) {
  Record record;
  record.kind = "matmul";
  record.ranks = std::move(ranks);
  record.line = line;
  record.state = RecordState::done;
  record.start = Duration{start * kMicrosecond};
  record.end = Duration{end * kMicrosecond};
  return record;
}

Record call(const char* kind, int line, Lanes ranks, int64_t start, int64_t end, int64_t elements) {
  Record record = work(line, std::move(ranks), start, end);
  record.kind = kind;
  record.group = "tp";
  record.members = 4;
  record.dtype = DType::f32;
  record.sizes = {elements};
  return record;
}

Duration us(int64_t count) { return Duration{count * kMicrosecond}; }

TEST(LineTimes, Line_SumsByRank_AndSeparatesCalls) {
  const std::vector<LineTime> lines = line_times({
      work(2, Lanes::range(0, 2), 0, 3),
      call("all_reduce", 2, Lanes::range(0, 2), 3, 10, 100),
      work(2, Lanes::one(1), 10, 14),
      work(1, Lanes::range(0, 2), 14, 15),
  });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].line, 1);
  EXPECT_EQ(lines[1].ranks.at(0).time, us(3));
  EXPECT_EQ(lines[1].ranks.at(1).time, us(7));
  EXPECT_EQ(lines[1].ranks.at(1).count, 2);
  EXPECT_EQ(lines[1].deciding_rank(), 1);
  EXPECT_EQ(lines[2].kind, "all_reduce");
  EXPECT_EQ(lines[2].ranks.at(0).bytes, 400);
  EXPECT_EQ(lines[2].ranks.at(0).bus_bytes, 600);
}

// Predictions for only some of a line's calls give no prediction for the line.
TEST(LineTimes, Prediction_OnlyIfAllCallsHaveOne) {
  Record predicted = call("all_reduce", 1, Lanes::one(0), 0, 10, 8);
  predicted.clock = TimedBy::device;
  predicted.expected = us(4);
  Record unpredicted = predicted;
  unpredicted.expected = {};
  const auto first = [](const std::vector<Record>& records) {
    return line_times(records)[0].ranks.at(0);
  };
  EXPECT_EQ(first({predicted, predicted}).expected, us(8));
  EXPECT_EQ(first({predicted, predicted}).by_device, 2);
  EXPECT_EQ(first({predicted, predicted}).with_launch, 0);
  unpredicted.clock = TimedBy::device_and_launch;
  EXPECT_EQ(first({predicted, unpredicted}).by_device, 2);
  EXPECT_EQ(first({predicted, unpredicted}).with_launch, 1);
  for (const auto& records : {std::vector{predicted, unpredicted, predicted},
                              {unpredicted, predicted},
                              {predicted, unpredicted}})
    EXPECT_EQ(first(records).expected, us(0));
}

TEST(LineTimes, Call_HasTimeOfLastRank) {
  const std::vector<LineTime> lines = line_times({call("all_gather", 1, Lanes::one(0), 0, 10, 8),
                                                  call("all_gather", 1, Lanes::one(1), 8, 10, 8)});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].deciding_rank(), 1);
}

TEST(LineTimes, UnfinishedCall_DoesNotCount) {
  Record hung = call("all_reduce", 1, Lanes::one(0), 0, 10, 8);
  hung.state = RecordState::started;
  EXPECT_TRUE(line_times({hung}).empty());
  EXPECT_TRUE(step_times({hung}).empty());
}

TEST(LineTimes, SizesAndFactors_EqualNcclTests) {
  const auto of = [](const char* kind, double bytes, double factor) {
    EXPECT_EQ(nccl_bytes(call(kind, 1, Lanes::one(0), 0, 1, 12)), bytes) << kind;
    EXPECT_DOUBLE_EQ(nccl_factor(kind, 4), factor) << kind;
  };
  of("all_reduce", 48, 1.5);
  of("all_gather", 192, 0.75);
  of("reduce_scatter", 48, 0.75);  // a record has the size of the input: all pieces
  of("all_to_all", 48, 0.75);
  of("broadcast", 48, 1);
  of("reduce", 48, 1);
  of("send", 48, 1);
  of("gather", 192, 0.75);
  of("barrier", 48, 0);
  EXPECT_EQ(nccl_factor("all_reduce", 1), 0);
}

TEST(LineTimes, Communication_WithoutWork_IsExposed) {
  const auto steps =
      step_times({work(1, Lanes::one(0), 10, 20), call("all_reduce", 2, Lanes::one(0), 15, 40, 8),
                  call("all_reduce", 3, Lanes::one(0), 30, 45, 8), work(4, Lanes::one(0), 35, 37),
                  work(5, Lanes::one(1), 0, 5)});
  EXPECT_EQ(steps.at(0).step, us(35));
  EXPECT_EQ(steps.at(0).exposed, us(45 - 20 - 2));
  EXPECT_EQ(steps.at(1), (StepTime{us(5), us(5), us(0), us(0), us(0)}));
  EXPECT_EQ(slowest(steps), (StepTime{us(35), us(12), us(23), us(0), us(0)}));
}

// Rank 1 comes last to the call, so its time there is what the call takes.
TEST(LineTimes, Step_IsTheSumOfItsParts) {
  const auto steps =
      step_times({work(1, Lanes::one(0), 0, 10), call("all_reduce", 2, Lanes::one(0), 12, 40, 8),
                  work(3, Lanes::one(0), 41, 45), work(1, Lanes::one(1), 0, 30),
                  call("all_reduce", 2, Lanes::one(1), 31, 40, 8), work(3, Lanes::one(1), 40, 44)});
  EXPECT_EQ(steps.at(0), (StepTime{us(45), us(10 + 4), us(28), us(28 - 9), us(2 + 1)}));
  EXPECT_EQ(steps.at(1), (StepTime{us(44), us(30 + 4), us(9), us(0), us(1)}));
  EXPECT_EQ(slowest(steps).waiting, us(19));
  for (const auto& [rank, step] : steps)
    EXPECT_EQ(step.step, step.work + step.exposed + step.outside) << rank;
}

// Rank 0 waits 30 us in two calls that run beside its work, and only communicates for 5 us.
TEST(LineTimes, Waiting_IsAtMostTheExposedTime) {
  const auto steps =
      step_times({call("all_reduce", 1, Lanes::one(0), 0, 20, 8),
                  call("all_reduce", 2, Lanes::one(0), 0, 20, 8), work(3, Lanes::one(0), 0, 15),
                  call("all_reduce", 1, Lanes::one(1), 15, 20, 8),
                  call("all_reduce", 2, Lanes::one(1), 15, 20, 8)});
  EXPECT_EQ(steps.at(0), (StepTime{us(20), us(15), us(5), us(5), us(0)}));
}

TEST(LineTimes, MedianRepetition_IsThatOfTheMedianStep) {
  std::vector<std::map<int32_t, StepTime>> repetitions;
  for (const int64_t time : {9, 1, 4})
    repetitions.push_back(
        step_times({work(1, Lanes::one(0), 0, time), work(1, Lanes::one(1), 0, 5)}));
  EXPECT_EQ(median_repetition(repetitions), 1U);  // steps of 9, 5 and 5 us
}

TEST(LineTimes, Median_IsByRank) {
  std::vector<std::vector<LineTime>> repetitions;
  for (const int64_t time : {9, 1, 4})
    repetitions.push_back(
        line_times({work(1, Lanes::one(0), 0, time), work(1, Lanes::one(1), 0, 10 - time)}));
  const std::vector<LineTime> median = median_of(repetitions);
  EXPECT_EQ(median.at(0).ranks.at(0).time, us(4));
  EXPECT_EQ(median.at(0).ranks.at(1).time, us(6));
  EXPECT_EQ(median_of(std::vector<Duration>{us(4), us(1), us(3), us(2)}), us(2));
  EXPECT_EQ(median_of(std::vector<Duration>{}), us(0));
}

}  // namespace
}  // namespace shardproof::line_times_test
