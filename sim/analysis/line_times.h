// LineTimes: what flight records say of time: of each line of the program and each rank, and of the
// whole step. Pure functions of records, simulated or measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/localtensor/report/call_record.h"

namespace shardproof {

// What one rank spent on a line, all passes of a loop together.
struct RankTime {
  Duration time;
  int64_t count = 0;  // calls or works
  // As nccl-tests counts: the size of each call, and that times the factor of its kind.
  double bytes = 0, bus_bytes = 0;
  int64_t by_device = 0;    // calls or works whose time is the device's own
  int64_t with_launch = 0;  // of these, that hold the launch
  Duration expected;        // by the library that made the calls; zero: it says so not of all
  bool operator==(const RankTime&) const = default;
};

// The calls of one kind over one group that a line makes, or the line's own work.
struct LineTime {
  int line = 0;
  std::string kind, group;  // empty for work
  std::map<int32_t, RankTime> ranks;
  bool operator==(const LineTime&) const = default;

  bool is_call() const { return !group.empty(); }
  // The rank that tells the time: of work the slowest; of a call the one that waited least for
  // others, which is the last to come.
  int32_t telling_rank() const;
};
// In order of lines, work before calls. Only what has ended counts.
std::vector<LineTime> line_times(const std::vector<Record>& records);
// The entry for the same activity; null when there is none.
const LineTime* find_line(const std::vector<LineTime>& lines, const LineTime& like);
// Rank by rank, the median over repetitions of the same program.
std::vector<LineTime> median_of(const std::vector<std::vector<LineTime>>& repetitions);
// The middle one; the lower of two.
Duration median_of(std::vector<Duration> times);

// From the first start to the last end.
struct StepTime {
  Duration step;
  Duration exposed;  // while this rank did nothing but communicate
  bool operator==(const StepTime&) const = default;
};
std::map<int32_t, StepTime> step_times(const std::vector<Record>& records);
// The longest step and the largest exposure of any rank.
StepTime slowest(const std::map<int32_t, StepTime>& ranks);

// nccl-tests' size of a call in bytes, and the factor from algorithm to bus bandwidth; 0 where it
// has none.
double nccl_bytes(const Record& call);
double nccl_factor(std::string_view kind, int64_t members);

}  // namespace shardproof
