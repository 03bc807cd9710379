// When the work of a ticket began and ended, on each lane of its cohort: virtual or measured time,
// counted from the start of the run.
#pragma once

#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/sim/call/per_lane.h"

namespace shardproof {

using LaneTimes = PerLane<Duration>;

struct TicketTimes {
  LaneTimes start, end;
  TimedBy clock = TimedBy::world;
  Duration expected;  // by the library that did it; zero: it does not say
};

}  // namespace shardproof
