// ProgressPage: the progress of a worker, in memory shared with its monitor process. The memory
// outlives the worker however that ends; the monitor then reports it to the coordinator.
//
// The worker writes, the monitor reads; both without locks. All numbers are of the present world.
#pragma once

#include <atomic>
#include <cstdint>

namespace shardproof {

struct ProgressPage {
  std::atomic<int64_t> begun{0}, done{0};  // commands of the coordinator, counted as they arrive
  std::atomic<int32_t> line{0};            // program line that a host has issued last; 0: none
};

// A copy of the page at one moment.
struct ProgressState {
  int64_t begun = 0, done = 0;
  int32_t line = 0;
};

}  // namespace shardproof
