// Times of program lines (line_times) and of whole steps (step_times) on each rank, computed from
// records. Pure functions; records may be simulated or measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/localtensor/report/call_record.h"

namespace shardproof {

// The time of one rank on a line, all passes of a loop together.
struct RankTime {
  Duration time;
  int64_t count = 0;  // calls or works
  // By the definitions of nccl-tests: bytes of the calls, and bytes times the factor of their kind.
  double bytes = 0, bus_bytes = 0;
  int64_t by_device = 0;    // calls or works that the device's own clock measured
  int64_t with_launch = 0;  // those of them whose time includes the launch
  Duration expected;        // predicted by the library; zero: not for all calls
  bool operator==(const RankTime&) const = default;
};

// The calls of one kind over one group that a line makes, or the local work of the line.
struct LineTime {
  int line = 0;
  std::string kind, group;  // both empty for work
  std::map<int32_t, RankTime> ranks;
  bool operator==(const LineTime&) const = default;

  bool is_call() const { return !group.empty(); }
  // Returns the rank whose time counts: for work the slowest, for a call the fastest. The fastest
  // came last and waited least for others.
  int32_t deciding_rank() const;
};
// Returns lines in order, work before calls. Counts only calls and works that have ended.
std::vector<LineTime> line_times(const std::vector<Record>& records);
// Returns the entry with the same line, kind and group as `like`; null if there is none.
const LineTime* find_line(const std::vector<LineTime>& lines, const LineTime& like);
// Returns the median over repetitions of the same program, rank by rank.
std::vector<LineTime> median_of(const std::vector<std::vector<LineTime>>& repetitions);
// Returns the median; the lower of the two in the middle. Zero for no times.
Duration median_of(std::vector<Duration> times);

// The time of a step on one rank, from the first start to the last end. Invariants: step = work +
// exposed + outside; waiting <= exposed.
struct StepTime {
  Duration step;
  Duration work;     // time in which a work of the rank ran, beside calls or not
  Duration exposed;  // time in which the rank only communicated
  // Time of its calls beyond that of the rank that waited least in the calls of the same line; at
  // most `exposed`.
  Duration waiting;
  Duration outside;  // time in which none of its works and calls ran: overhead of the tool
  bool operator==(const StepTime&) const = default;
};
std::map<int32_t, StepTime> step_times(const std::vector<Record>& records);
// Returns the longest step; zero for no ranks.
StepTime slowest(const std::map<int32_t, StepTime>& ranks);
// Returns the repetition whose slowest step is the median. Requires at least one.
size_t median_repetition(const std::vector<std::map<int32_t, StepTime>>& repetitions);

// Return a call's bytes, and the factor from algorithm to bus bandwidth, as nccl-tests defines them
// (nccl-tests, doc/PERFORMANCE.md); 0 if it defines none.
double nccl_bytes(const Record& call);
double nccl_factor(std::string_view kind, int64_t members);

}  // namespace shardproof
