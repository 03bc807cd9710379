// Tests of FiberPool: reuse of stacks, memory of a stack, order of fibers.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "shardproof/sim/fiber/fiber.h"

namespace shardproof::fiber_test {
namespace {

constexpr int kFibers = 50;

uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

// Returns the page of the caller's frame.
[[gnu::noinline]] uintptr_t page_here() {
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) / page_bytes();
}

std::set<uintptr_t> pages_of_fibers(FiberPool& pool) {
  std::set<uintptr_t> pages;
  for (int i = 0; i < kFibers; ++i) pool.spawn([&pages] { pages.insert(page_here()); });
  pool.run();
  return pages;
}

bool is_resident(uintptr_t page) {
  unsigned char resident = 0;
  EXPECT_EQ(mincore(reinterpret_cast<void*>(page * page_bytes()), page_bytes(), &resident), 0);
  return (resident & 1) != 0;
}

TEST(FiberPool, EndedFiber_LeavesItsStack) {
  FiberPool pool;
  const std::set<uintptr_t> first = pages_of_fibers(pool);
  EXPECT_EQ(first.size(), static_cast<size_t>(kFibers));
  EXPECT_EQ(pages_of_fibers(pool), first);
  EXPECT_EQ(pool.alive(), 0);
}

TEST(FiberPool, SmallFunction_TouchesOnePage) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "frames are larger under the address sanitizer";
#endif
  std::set<uintptr_t> pages;
  FiberPool pool;
  std::vector<FiberId> fibers;
  for (int i = 0; i < kFibers; ++i)
    fibers.push_back(pool.spawn([&, i] {
      pages.insert(page_here());
      pool.suspend(fibers[static_cast<size_t>(i)]);
    }));
  pool.run();
  for (const FiberId fiber : fibers) pool.wake(fiber);
  pool.run();
  ASSERT_EQ(pool.alive(), 0);
  ASSERT_EQ(pages.size(), static_cast<size_t>(kFibers));
  for (const uintptr_t page : pages) {
    EXPECT_TRUE(is_resident(page));
    EXPECT_FALSE(is_resident(page - 1));
  }
}

TEST(FiberPool, WokenFibers_RunInWakeOrder) {
  FiberPool pool;
  std::vector<FiberId> fibers;
  std::vector<int> order;
  for (int i = 0; i < 4; ++i)
    fibers.push_back(pool.spawn([&, i] {
      pool.suspend(fibers[static_cast<size_t>(i)]);
      order.push_back(i);
    }));
  pool.run();
  for (const int i : {2, 0, 3, 1}) pool.wake(fibers[static_cast<size_t>(i)]);
  pool.wake(fibers[2]);  // it is ready already: it runs once
  pool.run();
  EXPECT_EQ(order, (std::vector<int>{2, 0, 3, 1}));
}

}  // namespace
}  // namespace shardproof::fiber_test
