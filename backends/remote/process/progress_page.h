// ProgressPage: how far a worker has come, in memory that it shares with its keeper. What is
// written there outlives the worker, however it ends, and the keeper tells it with the end.
#pragma once

#include <atomic>
#include <cstdint>

namespace shardproof {

// Of the world under way.
struct ProgressPage {
  std::atomic<int64_t> begun{0}, done{0};  // orders, counted as they come
  std::atomic<int32_t> line{0};            // of the program: what a host has issued last
};

// What was read there.
struct ProgressState {
  int64_t begun = 0, done = 0;
  int32_t line = 0;
};

}  // namespace shardproof
