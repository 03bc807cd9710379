// Memory for tensors and their control blocks, 64-byte aligned, kept in free lists by size class. A
// run makes and drops the same few sizes all the time: a recycled block costs a few ns and, when
// large, no page faults.
//
// It is shared by everything on a thread although the house wants no singletons: it holds raw
// memory only, so no result can depend on it, and handing an allocator to every Tensor would put
// one into every signature. A block may be released on another thread than it was allocated on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace shardproof {

// Throws Error(limit) when the system has no more memory.
void* pool_allocate(size_t bytes);
// `bytes` as given to pool_allocate.
void pool_release(void* block, size_t bytes) noexcept;
// The bytes a block of this size really has, and those in this thread's free lists that can be
// given back to the system: small blocks cannot.
size_t pool_block_bytes(size_t bytes);
size_t pool_cached_bytes();

inline constexpr size_t kPoolAlignment = 64;
inline constexpr size_t kPoolMaxCachedBytes = size_t{512} << 20;

// For std::allocate_shared; `trailing` bytes are added behind the object, in the same block.
template <typename T>
struct PoolAllocator {
  using value_type = T;
  size_t trailing = 0;

  explicit PoolAllocator(size_t trailing_bytes = 0) : trailing(trailing_bytes) {}
  template <typename U>
  PoolAllocator(const PoolAllocator<U>& other) : trailing(other.trailing) {}
  T* allocate(size_t count) { return static_cast<T*>(pool_allocate(count * sizeof(T) + trailing)); }
  void deallocate(T* block, size_t count) noexcept {
    pool_release(block, count * sizeof(T) + trailing);
  }
  template <typename U>
  bool operator==(const PoolAllocator<U>& other) const {
    return trailing == other.trailing;
  }
};

// Of what a world keeps for each of its ranks: it lies together in large slabs, which costs the
// system few pages.
template <class T>
using PooledDeque = std::deque<T, PoolAllocator<T>>;
template <class T>
using PooledVector = std::vector<T, PoolAllocator<T>>;

}  // namespace shardproof
