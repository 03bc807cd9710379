// FiberPool: many C++ functions that take turns on one OS thread, each on a stack of its own. A
// fiber runs until it suspends itself; who wakes it decides when it goes on. Ready fibers run in
// the order in which they became ready, so a run is a function of its input.
//
// Stacks come from slabs. A function that has ended leaves its stack to the next one; of most, the
// top page alone is touched. Before Linux 6.13 a guarded stack costs the system two mappings, of
// which it has about 65,000: only the first `guarded_stacks` get a guard page below them there. A
// pool belongs to the thread that made it, and there is one at a time on a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace shardproof {

struct FiberOptions {
  int64_t stack_bytes = 128 << 10;  // whole pages; real are the top one and what is touched
  int64_t guarded_stacks = 16384;
};

using FiberId = int64_t;

class FiberPool {
 public:
  explicit FiberPool(FiberOptions options = {});
  // Every fiber must have ended: stacks are never destroyed under a function.
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // The body must not throw. It runs at the next run().
  FiberId spawn(std::function<void()> body);
  // From outside of fibers: lets all that are ready run until none is.
  void run();
  int64_t alive() const;
  // From inside: the fiber that runs now gives way until somebody wakes it.
  void suspend(FiberId self);
  void wake(FiberId fiber);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
