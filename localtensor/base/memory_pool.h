// Memory pool for tensors and their control blocks: 64-byte aligned blocks, kept in free lists by
// size class. A run allocates and frees the same few sizes repeatedly: a recycled block costs a few
// ns and, if it is large, no page faults.
//
// The pool is a global although the project avoids globals. It holds raw memory only, so no result
// can depend on it. Without it, every function that makes a tensor would need an allocator
// argument. Free lists are per thread. A block may be released on another thread than the one that
// allocated it.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace shardproof {

// Returns a block of at least `bytes` bytes. Throws Error(limit) if the system has no more memory.
void* pool_allocate(size_t bytes);
// Releases a block; `bytes` as given to pool_allocate.
void pool_release(void* block, size_t bytes) noexcept;
// Returns the size that pool_allocate(bytes) really allocates: at most 1/8 more for large blocks.
size_t pool_block_bytes(size_t bytes);
// Returns the bytes in this thread's free lists that can be returned to the system. Blocks cut from
// slabs (1 KiB and less) cannot, and are not counted.
size_t pool_cached_bytes();

inline constexpr size_t kPoolAlignment = 64;                      // bytes
inline constexpr size_t kPoolMaxCachedBytes = size_t{512} << 20;  // a thread

// Allocator for std::allocate_shared and containers. Without state: it takes no room in them.
template <typename T>
struct PoolAllocator {
  using value_type = T;

  PoolAllocator() = default;
  template <typename U>
  PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(pool_allocate(count * sizeof(T))); }
  void deallocate(T* block, size_t count) noexcept { pool_release(block, count * sizeof(T)); }
  template <typename U>
  bool operator==(const PoolAllocator<U>&) const {
    return true;
  }
};

// A PoolAllocator with `trailing` bytes after the object, in the same block.
template <typename T>
struct TrailingPoolAllocator {
  using value_type = T;
  size_t trailing = 0;

  explicit TrailingPoolAllocator(size_t trailing_bytes) : trailing(trailing_bytes) {}
  template <typename U>
  TrailingPoolAllocator(const TrailingPoolAllocator<U>& other) : trailing(other.trailing) {}
  T* allocate(size_t count) { return static_cast<T*>(pool_allocate(count * sizeof(T) + trailing)); }
  void deallocate(T* block, size_t count) noexcept {
    pool_release(block, count * sizeof(T) + trailing);
  }
  template <typename U>
  bool operator==(const TrailingPoolAllocator<U>& other) const {
    return trailing == other.trailing;
  }
};

// Containers for state that a world stores for each rank: it lies in large slabs, on few pages.
template <class T>
using PooledDeque = std::deque<T, PoolAllocator<T>>;
template <class T>
using PooledVector = std::vector<T, PoolAllocator<T>>;

}  // namespace shardproof
