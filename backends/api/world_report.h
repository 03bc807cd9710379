// WorldReport: what came out of a world: verdicts of the physics, the flight record, clock and
// memory. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/localtensor/report/finding.h"

namespace shardproof {

// An exception that left a rank's function (facade.h).
struct RankError {
  int64_t rank = 0;
  std::string message;
  bool operator==(const RankError&) const = default;
};

struct WorldReport {
  std::vector<Finding> findings;  // mismatch, deadlock, missing rank, not a member
  std::vector<Record> records;    // calls and works in the order they ended
  // Of real processes that were asked to measure: calls and works of every rank with the time they
  // really took, each process counting from the moment it began the world.
  std::vector<Record> measured;
  bool timed = false;
  Duration time;                          // of the slowest rank
  std::vector<Duration> rank_times;       // per rank, when timed
  int64_t peak_bytes = 0;                 // of the fullest rank
  std::vector<int64_t> peak_by_category;  // at that rank's peak
  int64_t peak_rank = 0;
  std::vector<RankError> rank_errors;  // of rank functions written in C++, in order of happening
  bool broken = false;  // a process was lost: the run cannot be repeated to learn more
};

}  // namespace shardproof
