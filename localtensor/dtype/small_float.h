// Format: the bit layout of each of the four small float formats, and a selection without branches.
#pragma once

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof::detail {

template <typename Storage>
struct Format;
// kOverflow: the bits that an overflow becomes; they follow those of the largest finite value.
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

// Returns `yes` if the condition holds, else `no`, by a mask. A compiler may turn `?:` into a
// branch around the float operations, and a loop with a branch does not become vector code. 64-bit
// values use `?:`, because SSE2 compares them too slowly.
template <typename Bits>
constexpr Bits selected(bool condition, Bits yes, Bits no) {
  if constexpr (sizeof(Bits) == 8) return condition ? yes : no;
  const Bits mask = -static_cast<Bits>(condition);
  return (yes & mask) | (no & ~mask);
}

}  // namespace shardproof::detail
