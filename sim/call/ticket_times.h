// TicketTimes: start and end of a ticket's work on each lane of its cohort, virtual or measured,
// counted from the start of the run.
#pragma once

#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/sim/call/per_lane.h"

namespace shardproof {

using LaneTimes = PerLane<Duration>;

struct TicketTimes {
  LaneTimes start, end;
  TimedBy clock = TimedBy::world;
  Duration expected;  // predicted by the library; zero: no prediction
};

}  // namespace shardproof
