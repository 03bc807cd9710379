// Copies of a few elements and lines, with which operands of a product are packed.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shardproof {

// Copies a few elements, for which a call of memcpy costs more than the copy.
template <typename T>
inline void copy_few(T* to, const T* from, int count) {
  constexpr int kInLine = 64 / sizeof(T);  // of a cache line, a full panel of most machines
  for (; count >= kInLine; count -= kInLine, to += kInLine, from += kInLine)
    std::memcpy(to, from, kInLine * sizeof(T));
  for (; count >= 4; count -= 4, to += 4, from += 4) std::memcpy(to, from, 4 * sizeof(T));
  for (int i = 0; i < count; ++i) to[i] = from[i];
}

// Transposes elements k..end-1 of four lines: to[k * width + i] = lines[i][k].
template <typename T>
inline void pack_four_lines(const T* const* lines, int64_t k, int64_t end, T* to, int width) {
  if constexpr (std::is_arithmetic_v<T>) {
    typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(alignof(T)), may_alias));
    for (; k + 4 <= end; k += 4) {
      const Four& a = *reinterpret_cast<const Four*>(lines[0] + k);
      const Four& b = *reinterpret_cast<const Four*>(lines[1] + k);
      const Four& c = *reinterpret_cast<const Four*>(lines[2] + k);
      const Four& d = *reinterpret_cast<const Four*>(lines[3] + k);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      T* const at = to + k * width;
      *reinterpret_cast<Four*>(at) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(at + width) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(at + 2 * width) =
          __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(at + 3 * width) =
          __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    }
  }
  for (; k < end; ++k)
    for (int i = 0; i < 4; ++i) to[k * width + i] = lines[i][k];
}

}  // namespace shardproof
