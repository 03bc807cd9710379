// ActiveTimeClock: time that passes only while this process is at work. Others that stand still
// together with it, on a machine that sleeps or is held up, have not been silent meanwhile.
#pragma once

#include <algorithm>
#include <chrono>

namespace shardproof {

class ActiveTimeClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Asked many times a second; a longer break counts as a moment.
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
