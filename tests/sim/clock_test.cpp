// Tests of virtual time: PerLane, TicketTable, cost models, schedules.
#include "shardproof/sim/call/ticket_table.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/call/schedule.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof::clock_test {
namespace {

TEST(PerLane, DifferingLane_Spreads_AndAgreementCollapses) {
  PerLane<int64_t> values(5);
  EXPECT_TRUE(values.uniform());
  values.at(2, 4) = 7;
  EXPECT_FALSE(values.uniform());
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(values[2], 7);
  EXPECT_EQ(values.max(), 7);
  values.for_each([](int64_t& value) { value = 9; });
  values.collapse();
  EXPECT_TRUE(values.uniform());
  EXPECT_EQ(values[3], 9);
}

TEST(PerLane, RaiseTo_TakesLarger) {
  PerLane<int64_t> a(3), b(1);
  b.at(1, 3) = 8;
  a.raise_to(b);
  EXPECT_EQ(a[0], 3);
  EXPECT_EQ(a[1], 8);
  PerLane<int64_t> c(5);
  a.raise_to(c);
  EXPECT_EQ(a[0], 5);
  EXPECT_EQ(a[1], 8);
}

TEST(TicketTable, End_WakesWaiters_AndStoresTimes) {
  TicketTable tickets;
  const Ticket first = tickets.open({0, 0}), second = tickets.open({1, 2});
  EXPECT_EQ(tickets.state(kDone), TicketState::done);
  EXPECT_EQ(tickets.state(second), TicketState::pending);
  tickets.wait(second, {4, 1});
  tickets.wait(second, {5, 0});
  EXPECT_FALSE(tickets.times(second));
  tickets.end(first, TicketState::failed);
  EXPECT_TRUE(tickets.woken().empty());
  LaneTimes end(Duration{10});
  end.at(1, 2) = Duration{30};
  tickets.end(second, TicketState::done, LaneTimes(Duration{5}), end);
  ASSERT_EQ(tickets.woken().size(), 2u);
  EXPECT_EQ(tickets.woken()[1].cohort, 5);
  EXPECT_EQ(tickets.times(second)->end[1], Duration{30});
  LaneTimes times(Duration{20});
  tickets.raise(times, second);
  EXPECT_EQ(times[0], Duration{20});
  EXPECT_EQ(times[1], Duration{30});
}

// --- prices --------------------------------------------------------------------------------------

Collective call_of(CollectiveKind kind, int64_t members) {
  Collective c;
  c.kind = kind;
  c.group = Group::world(members);
  return c;
}

TEST(CostModel, FlatMachine_GivesRingTimes) {
  // 1 us and 1 GB/s: a byte is a nanosecond. S = 4000 bytes, 4 members.
  const auto flat = flat_machine({{1'000'000}, 1e9});
  const auto us = [&](CollectiveKind kind) {
    return to_string(flat->collective(call_of(kind, 4), 4000));
  };
  EXPECT_EQ(us(CollectiveKind::all_reduce), "12 us");  // 6 x (1 + 1)
  EXPECT_EQ(us(CollectiveKind::all_gather), "6 us");   // 3 x (1 + 1)
  EXPECT_EQ(us(CollectiveKind::reduce_scatter), "6 us");
  EXPECT_EQ(us(CollectiveKind::all_to_all), "3.75 us");  // 3 x (1 + 0.25)
  EXPECT_EQ(us(CollectiveKind::broadcast), "7 us");      // 3 + 4
  EXPECT_EQ(us(CollectiveKind::send), "5 us");
  EXPECT_EQ(us(CollectiveKind::barrier), "6 us");
  EXPECT_EQ(flat->collective(call_of(CollectiveKind::all_reduce, 1), 4000), Duration{});
  EXPECT_THROW(flat_machine({{1}, 0}), Error);
}

TEST(CostModel, Kernel_TakesLongerOfArithmeticAndMemory) {
  const auto ideal = ideal_machine(Roofline{1e12, 1e9});
  EXPECT_EQ(ideal->collective(call_of(CollectiveKind::all_reduce, 8), 1 << 30), Duration{});
  EXPECT_EQ(to_string(ideal->kernel(1e12, 0)), "1 s");
  EXPECT_EQ(to_string(ideal->kernel(1, 1e6)), "1 ms");
  EXPECT_TRUE(ideal->has_rates());
  EXPECT_THROW(ideal_machine(Roofline{0, 1e9}), Error);
}

TEST(CostModel, MachineWithoutRates_PredictsNoKernel) {
  for (const auto& machine : {ideal_machine(), flat_machine({{1'000'000}, 1e9})}) {
    EXPECT_FALSE(machine->has_rates());
    EXPECT_EQ(machine->kernel(1e12, 1e12), Duration{});
  }
}

TEST(CostModel, WholeBytes_AreThoseOfTheGroup) {
  Collective c = call_of(CollectiveKind::all_gather, 4);
  c.count = 10;
  EXPECT_EQ(whole_bytes_of(c), 160);
  c.kind = CollectiveKind::all_reduce;
  EXPECT_EQ(whole_bytes_of(c), 40);
  c.kind = CollectiveKind::barrier;
  EXPECT_EQ(whole_bytes_of(c), 0);
}

// --- schedules -----------------------------------------------------------------------------------

// Returns the index of the stream that a schedule runs next.
size_t next_of(const std::vector<StreamHead>& heads, const Schedule& schedule) {
  const auto first =
      std::min_element(heads.begin(), heads.end(), [&](const StreamHead& a, const StreamHead& b) {
        return priority_of(a, schedule) < priority_of(b, schedule);
      });
  return static_cast<size_t>(first - heads.begin());
}

TEST(Schedule, PrioritiesFollowIt) {
  const std::vector<StreamHead> ages{{4, 0}, {2, 1}, {9, 2}, {7, 0}};
  EXPECT_EQ(next_of(ages, {ScheduleKind::fifo, 0}), 1u);
  EXPECT_EQ(next_of(ages, {ScheduleKind::adversarial, 0}), 2u);
  EXPECT_EQ(next_of(ages, {ScheduleKind::side_first, 0}), 2u);
  EXPECT_EQ(next_of(ages, {ScheduleKind::main_first, 0}), 0u);
  const std::vector<StreamHead> mains{{1, 0, OtherWork::queued}, {5, 0}, {6, 0}};
  EXPECT_EQ(next_of(mains, {ScheduleKind::side_first, 0}), 1u);
  const std::vector<StreamHead> called{{1, 0, OtherWork::in_call}, {5, 0, OtherWork::queued}};
  EXPECT_EQ(next_of(called, {ScheduleKind::side_first, 0}), 1u);
  for (int i = 0; i < kScheduleKindCount; ++i)
    EXPECT_EQ(parse_schedule_kind(name(static_cast<ScheduleKind>(i))),
              static_cast<ScheduleKind>(i));
  EXPECT_EQ(parse_schedule_kind("other"), std::nullopt);
}

TEST(Schedule, SeededIsRandomAndRepeatable) {
  std::set<size_t> picks;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<StreamHead> heads{{4, 0}, {2, 1}, {9, 2}, {7, 0}};
    const size_t pick = next_of(heads, {ScheduleKind::seeded, seed});
    EXPECT_EQ(pick, next_of(heads, {ScheduleKind::seeded, seed}));
    picks.insert(pick);
  }
  EXPECT_EQ(picks.size(), 4u);
}

}  // namespace
}  // namespace shardproof::clock_test
