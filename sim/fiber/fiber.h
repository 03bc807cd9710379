// FiberPool: runs many C++ functions in turn on one OS thread, each on a stack of its own. A fiber
// runs until it suspends itself and continues when it is woken. Ready fibers run in the order in
// which they became ready, so a run is deterministic.
//
// Stacks are mapped in slabs (fiber_stacks.h) and reused; most functions touch only the top page.
// Before Linux 6.13 a guarded stack needs two mappings, of which the system allows about 65,000:
// only the first `guarded_stacks` have a guard page there.
//
// Threading: a pool belongs to the thread that made it; a thread has at most one. Spawning throws
// Error(limit) if there is no memory for a stack.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace shardproof {

struct FiberOptions {
  int64_t stack_bytes = 128 << 10;  // rounded up to pages; only touched pages take memory
  int64_t guarded_stacks = 16384;
};

using FiberId = int64_t;

class FiberPool {
 public:
  explicit FiberPool(FiberOptions options = {});
  // Requires that every fiber has ended.
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // Adds a fiber, which runs at the next run(). The body must not throw.
  FiberId spawn(std::function<void()> body);
  // Runs all ready fibers until none is ready. Call it outside of fibers.
  void run();
  int64_t alive() const;
  // Suspends the running fiber, `self`, until another one wakes it. Call it inside.
  void suspend(FiberId self);
  void wake(FiberId fiber);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
