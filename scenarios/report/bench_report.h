// What `shardproof bench` measured, as nccl-tests prints and writes it, with a prediction beside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/api/benchmark.h"

namespace shardproof {

// One of the two placings of one size.
struct BenchSide {
  double seconds = 0;
  std::optional<int64_t> wrong;    // nothing: not looked at
  TimedBy clock = TimedBy::world;  // on which the time was taken
};

struct BenchRow {
  Collective collective;  // with its count
  BenchSide apart, in_place;
  std::optional<double> predicted_seconds;
  std::optional<double> expected_seconds;  // by the library that exchanges
};

enum class Averaging : uint8_t { first, average, least, most };  // over processes

struct BenchHead {
  std::string version, backend;
  Collective collective;
  int processes = 1;
  int warmup = 1, times = 20;
  Averaging averaging = Averaging::average;
  bool simulated = false;  // times are what the simulator takes
  std::string machine;     // of the prediction; empty: none
  std::string
      estimator;  // by what the library says how long it expects to take; empty: it does not
};

// nccl-tests' size column: bytes of the larger of what a rank sends and receives in all.
int64_t size_in_bytes(const Collective& collective);
// Size by time, and that times what makes it comparable with a link: bytes a second.
double algorithm_bandwidth(const Collective& collective, double seconds);
double bus_bandwidth(const Collective& collective, double seconds);

// A table in pieces, so that rows can be seen as they come.
std::string bench_head_text(const BenchHead& head);
std::string bench_row_text(const BenchHead& head, const BenchRow& row);
std::string bench_foot_text(const std::vector<BenchRow>& rows);

std::string bench_json(const BenchHead& head, const std::vector<BenchRow>& rows);

}  // namespace shardproof
