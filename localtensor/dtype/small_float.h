// What tells the four small float formats apart.
#pragma once

#include <cstdint>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof::detail {

template <typename Storage>
struct Format;
// kOverflow: what an overflow becomes, the bits after those of the largest finite value.
template <>
struct Format<F16> {
  static constexpr int kMantissa = 10, kBias = 15, kSignAt = 15;
  static constexpr int kOverflow = 0x7c00, kQuietNan = 0x7e00;
};
template <>
struct Format<BF16> {
  static constexpr int kMantissa = 7, kBias = 127, kSignAt = 15;
  static constexpr int kOverflow = 0x7f80, kQuietNan = 0x7fc0;
};
template <>
struct Format<F8E4M3> {
  static constexpr int kMantissa = 3, kBias = 7, kSignAt = 7;
  static constexpr int kOverflow = 0x7f, kQuietNan = 0x7f;
};
template <>
struct Format<F8E5M2> {
  static constexpr int kMantissa = 2, kBias = 15, kSignAt = 7;
  static constexpr int kOverflow = 0x7c, kQuietNan = 0x7e;
};

// Not `?:`, which a compiler may turn into a branch round the float operations; a loop with a
// branch does not become vector code. Compares of 64 bits are too slow in SSE2 to be worth it.
template <typename Bits>
constexpr Bits selected(bool condition, Bits yes, Bits no) {
  if constexpr (sizeof(Bits) == 8) return condition ? yes : no;
  const Bits mask = -static_cast<Bits>(condition);
  return (yes & mask) | (no & ~mask);
}

}  // namespace shardproof::detail
