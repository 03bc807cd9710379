// Reports of `shardproof bench`: the table and the JSON of nccl-tests, with a predicted time.
//
// Keys of the JSON that nccl-tests does not have:
//
//   key                         value
//   config.simulated            true: times are those of the simulator itself
//   config.topology             machine of the prediction
//   config.estimator            function of the library that estimates times
//   results[].predicted.time    predicted microseconds
//   results[].expected.time     microseconds that the library estimates
//   results[].in_place.clock    "device", or "device+launch" if the launch may be included
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/api/benchmark.h"

namespace shardproof {

// Measured results of one size, in place or out of place.
struct BenchSide {
  double seconds = 0;
  std::optional<int64_t> wrong;    // wrong elements; nullopt: not compared
  TimedBy clock = TimedBy::world;  // clock that measured the time
};

struct BenchRow {
  Collective collective;  // with its count
  BenchSide out_of_place, in_place;
  std::optional<double> predicted_seconds;
  std::optional<double> expected_seconds;  // estimate of the communication library
};

// The time that represents those of all processes: that of process 0, average, minimum or maximum.
enum class Averaging : uint8_t { first, average, least, most };

struct BenchHead {
  std::string version, backend;
  Collective collective;
  int processes = 1;
  int warmup = 1, times = 20;
  Averaging averaging = Averaging::average;
  bool simulated = false;  // times are those of the simulator itself
  std::string machine;     // of the prediction; empty: none
  std::string estimator;   // function of the library that estimates times; empty: none
};

// Returns the size column of nccl-tests: bytes that a rank sends or receives, whichever is more.
int64_t size_in_bytes(const Collective& collective);
// Return bytes a second as nccl-tests defines them. Algorithm bandwidth is size by time. Bus
// bandwidth is the same times a factor that makes it comparable with the bandwidth of a link.
// Return 0 for a time of 0.
double algorithm_bandwidth(const Collective& collective, double seconds);
double bus_bandwidth(const Collective& collective, double seconds);

// Return the table in parts, so that rows can be printed when they are measured.
std::string bench_head_text(const BenchHead& head);
std::string bench_row_text(const BenchHead& head, const BenchRow& row);
std::string bench_foot_text(const std::vector<BenchRow>& rows);

std::string bench_json(const BenchHead& head, const std::vector<BenchRow>& rows);

}  // namespace shardproof
