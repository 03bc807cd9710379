// Prefetch: loads memory into the cache before a loop reaches it. Changes no result; worth it where
// a loop reads state of many ranks, which is scattered in memory.
#pragma once

#include <cstddef>

namespace shardproof {

// Prefetches the cache lines of [address, address + bytes). Any address is allowed, null too.
inline void prefetch(const void* address, size_t bytes = 1) {
  constexpr size_t kLine = 64;
  const auto* const first = static_cast<const char*>(address);
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(first + at, 1);
}

}  // namespace shardproof
