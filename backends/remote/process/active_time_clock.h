// ActiveTimeClock: a clock for timeouts that excludes the time during which this process did not
// run. If a machine sleeps or a debugger stops all processes, no process is reported as silent
// because of it.
//
// Not thread-safe. Example: calls of now() at 0, 50 and 5,000 ms return 0, 50 and 250 ms.
#pragma once

#include <algorithm>
#include <chrono>

namespace shardproof {

class ActiveTimeClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Returns the active time. Requires a call at least every 200 ms: a longer gap counts as 200 ms.
  Clock::time_point now(Clock::time_point machine = Clock::now()) {
    attended_ += std::min<Clock::duration>(machine - asked_, kMoment);
    asked_ = machine;
    return attended_;
  }

 private:
  static constexpr std::chrono::milliseconds kMoment{200};
  Clock::time_point asked_ = Clock::now(), attended_ = asked_;
};

}  // namespace shardproof
