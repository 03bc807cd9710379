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
    active_ += std::min<Clock::duration>(machine - last_call_, kLongestGap);
    last_call_ = machine;
    return active_;
  }

 private:
  static constexpr std::chrono::milliseconds kLongestGap{200};
  Clock::time_point last_call_ = Clock::now(), active_ = last_call_;
};

}  // namespace shardproof
