// Tests of ActiveTimeClock: time during which this process did not run does not count.
#include <gtest/gtest.h>

#include "shardproof/backends/remote/process/active_time_clock.h"

namespace shardproof::active_time_clock_test {
namespace {

using Clock = ActiveTimeClock::Clock;
using std::chrono::milliseconds;

TEST(ActiveTimeClock, LongGap_CountsAsAMoment) {
  ActiveTimeClock clock;
  Clock::time_point machine = Clock::now();
  const Clock::time_point start = clock.now(machine);
  for (int i = 0; i < 20; ++i) clock.now(machine += milliseconds(50));
  EXPECT_EQ(clock.now(machine) - start, milliseconds(1000));
  clock.now(machine += std::chrono::hours(1));
  EXPECT_LT(clock.now(machine) - start, milliseconds(1500));
  clock.now(machine += milliseconds(50));
  EXPECT_GT(clock.now(machine) - start, milliseconds(1050));
}

}  // namespace
}  // namespace shardproof::active_time_clock_test
