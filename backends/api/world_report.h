// WorldReport: the results of a world: findings of the call matcher, records, clock and memory. A
// plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardproof/backends/api/lazy_records.h"
#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/localtensor/report/finding.h"

namespace shardproof {

// An exception that left a rank's function (rank_context.h).
struct RankError {
  int64_t rank = 0;
  std::string message;
  bool operator==(const RankError&) const = default;
};

struct WorldReport {
  std::vector<Finding> findings;  // mismatch, deadlock, missing rank, not a member
  LazyRecords records;            // calls and works in the order they ended
  // Calls and works of every rank with measured times, one list for each time that the processes
  // have published theirs. Each process counts time from its start of the world or the repetition.
  std::vector<std::vector<Record>> measured;
  bool timed = false;
  Duration time;                          // time of the slowest rank
  std::vector<Duration> rank_times;       // by rank, if timed
  int64_t peak_bytes = 0;                 // highest peak of a rank
  std::vector<int64_t> peak_by_category;  // bytes at that rank's peak
  int64_t peak_rank = 0;
  std::vector<RankError> rank_errors;  // rank functions that an exception ended, in order of time
  bool broken = false;  // a process was lost: the run cannot be repeated for an explanation
};

}  // namespace shardproof
