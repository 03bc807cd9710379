// Tests of fault injection: what each fault changes, and which texts are refused.
#include <gtest/gtest.h>

#include "shardproof/backends/api/rank_context.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/sim/cost/fault.h"

namespace shardproof::fault_injection_test {
namespace {

Tensor number(double value, DType dtype = DType::f32) {
  return tensor_of(dtype, {2}, {value, value});
}

// The sum of 1 over three ranks, made twice, as each rank receives it.
struct Sums {
  std::vector<double> first = std::vector<double>(3), second = std::vector<double>(3);
  WorldReport report;
};

Sums sums_with(std::vector<std::string> faults, DType dtype = DType::f32) {
  Sums sums;
  RanksOptions options;
  options.world.faults = std::move(faults);
  options.on_stop = OnStop::return_calls;
  sums.report = run_ranks(
      3,
      [&](RankContext& me) {
        const size_t rank = static_cast<size_t>(me.rank());
        sums.first[rank] = values_of(me.all_reduce(number(1, dtype)))[0];
        const Tensor y = me.all_reduce(number(1, dtype));
        if (!me.stopped()) sums.second[rank] = values_of(y)[0];
      },
      options);
  return sums;
}

TEST(Faults, Corrupt_ChangesOnlyItsCall) {
  const Sums sums = sums_with({"corrupt(rank=1, call=2)"});
  EXPECT_EQ(sums.first, (std::vector<double>{3, 3, 3}));
  EXPECT_EQ(sums.second, (std::vector<double>{0, 0, 0}));  // 1 - 2 + 1
  EXPECT_TRUE(sums.report.findings.empty());
}

TEST(Faults, Corrupt_Integer_IsInverted) {
  EXPECT_EQ(sums_with({"corrupt(rank=1, call=1)"}, DType::i32).first,
            (std::vector<double>{0, 0, 0}));
}

TEST(Faults, Corrupt_ChangesNamedElement_NotTheBuffer) {
  RanksOptions options;
  options.world.faults = {"corrupt(rank=0, call=1, element=1)"};
  std::vector<double> sum, own;
  run_ranks(
      2,
      [&](RankContext& me) {
        const Tensor x = tensor_of(DType::f32, {2}, {-4, -4});
        const Tensor y = me.all_reduce(x);
        if (me.rank() != 0) return;
        sum = values_of(y);
        own = values_of(x);
      },
      options);
  EXPECT_EQ(sum, (std::vector<double>{-8, 1}));  // -(-4) + 1 - 4
  EXPECT_EQ(own, (std::vector<double>{-4, -4}));
}

TEST(Faults, Corrupt_Receive_ChangesReceivedElement) {
  RanksOptions options;
  options.world.faults = {"corrupt(rank=1, call=1)"};
  std::vector<double> got;
  run_ranks(
      2,
      [&](RankContext& me) {
        if (me.rank() == 0) return me.send(number(5), 1, me.world());
        got = values_of(me.recv(DType::f32, {2}, 0, me.world()));
      },
      options);
  EXPECT_EQ(got, (std::vector<double>{-6, 5}));
}

// The others' call matches the skipping rank's next one, so their last call has no partner.
TEST(Faults, Skip_OutputsItsInput_AndShiftsLaterCalls) {
  const Sums sums = sums_with({"skip(rank=2, call=1)"});
  EXPECT_EQ(sums.first, (std::vector<double>{3, 3, 1}));
  ASSERT_EQ(sums.report.findings.size(), 1u);
  EXPECT_EQ(sums.report.findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(sums.report.findings[0].ranks, Lanes::one(2));
}

TEST(Faults, HangAndDie_AreMissingRanks) {
  for (const char* fault : {"hang(rank=0, call=2)", "die(rank=0, call=2)"}) {
    const Sums sums = sums_with({fault});
    EXPECT_EQ(sums.first, (std::vector<double>{3, 3, 3}));
    ASSERT_EQ(sums.report.findings.size(), 1u) << fault;
    EXPECT_EQ(sums.report.findings[0].ranks, Lanes::one(0));
    EXPECT_EQ(sums.report.findings[0].call, 2);
  }
}

TEST(Faults, Stop_AtLaterCallOfGroup_StartsNoneOfIt) {
  for (const char* fault : {"hang(rank=0, call=2)", "die(rank=0, call=2)"}) {
    RanksOptions options;
    options.on_stop = OnStop::return_calls;  // sanitizers do not support unwinding on fibers
    options.world.faults = {fault};
    const WorldReport report = run_ranks(
        2,
        [](RankContext& me) {
          CallGroup both = me.group();
          both.send(number(1), 1 - me.rank(), me.world(), 1);
          both.recv(DType::f32, {2}, 1 - me.rank(), me.world(), 2);
          me.run(both);
        },
        options);
    ASSERT_EQ(report.findings.size(), 1u) << fault;
    EXPECT_EQ(report.findings[0].verdict, Verdict::missing_rank);
    EXPECT_EQ(report.findings[0].ranks, Lanes::one(0));
    EXPECT_EQ(report.findings[0].line, 1);
    EXPECT_EQ(report.findings[0].details.size(), 3u);  // both calls of rank 1, and the reason
  }
}

Duration time_with(std::vector<std::string> faults) {
  RanksOptions options;
  options.world.faults = std::move(faults);
  options.world.cost = ideal_machine(Roofline{1e12, 1e12});
  return run_ranks(
             2,
             [](RankContext& me) {
               me.compute(4e6, 0);
               me.all_reduce(number(1));
               me.compute(4e6, 0);
             },
             options)
      .time;
}

TEST(Faults, SlowAndDelay_TakeTheStatedTime) {
  EXPECT_EQ(to_string(time_with({})), "8 us");
  EXPECT_EQ(to_string(time_with({"slow(rank=1, by=1.5)"})), "12 us");
  EXPECT_EQ(to_string(time_with({"delay(rank=0, call=1, by='2 ms')"})), "2.008 ms");
}

TEST(Faults, Text_ParsesBack) {
  for (const char* text : {"hang(rank=3, call=5)", "die(rank=0, line=2)", "skip(rank=1, call=1)",
                           "delay(rank=3, call=5, by='2 ms')", "corrupt(rank=3, call=5, element=7)",
                           "slow(rank=5, by=1.5)"})
    EXPECT_EQ(to_string(parse_fault(text)), text);
  EXPECT_EQ(parse_fault(" corrupt( call=5 , rank=3 ) ").element, 0);
}

void expect_refused(const char* text, ErrorKind kind, const char* part) {
  try {
    parse_fault(text);
    ADD_FAILURE() << text << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << text;
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(FaultsRefused, MalformedFault_IsRefused_WithReason) {
  expect_refused("hung(rank=1, call=1)", ErrorKind::bad_input, "did you mean \"hang\"");
  expect_refused("hang(call=1)", ErrorKind::bad_input, "needs rank=");
  expect_refused("hang(rank=1)", ErrorKind::bad_input, "either call= or line=");
  expect_refused("hang(rank=1, call=0)", ErrorKind::bad_input, "at least 1");
  expect_refused("hang(rank=1, call=1, call=2)", ErrorKind::bad_input, "twice");
  expect_refused("hang(rank=1, call=1, by=2)", ErrorKind::bad_input, "unknown argument by=");
  expect_refused("delay(rank=1, call=1, by='2 apples')", ErrorKind::bad_input, "such as '2 ms'");
  expect_refused("slow(rank=1, by=0)", ErrorKind::bad_input, "above 0");
  expect_refused("link(nodes=[0, 1], bandwidth=0.1)", ErrorKind::unsupported, "link");
  expect_refused("crash(rank=1, at='write')", ErrorKind::unsupported, "crash");
  EXPECT_THROW(sums_with({"hang(rank=3, call=1)"}), Error);
}

}  // namespace
}  // namespace shardproof::fault_injection_test
