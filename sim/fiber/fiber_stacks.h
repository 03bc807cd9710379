// FiberStacks: memory for the stacks of fibers, mapped in slabs of many stacks and reused. Stacks
// grow down. A guard page lies below each stack; where a guard needs a mapping of its own, only
// below the first `guarded` ones. Owns the memory. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardproof {

class FiberStacks {
 public:
  FiberStacks(int64_t stack_bytes, int64_t guarded);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  size_t stack_bytes() const { return stack_bytes_; }
  // Returns the lowest usable byte of a stack. Throws Error(limit) if the system has no more
  // memory.
  std::byte* allocate_stack();
  void release(std::byte* stack) { free_.push_back(stack); }

 private:
  void map_slab();

  struct Slab {
    std::byte* begin;
    size_t bytes;
  };
  size_t stack_bytes_, page_bytes_;
  int64_t guards_left_, stacks_ = 0;
  std::vector<Slab> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace shardproof
