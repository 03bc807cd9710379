// round_to: rounds f32 or f64 to one of the four small float formats, to nearest even, in one
// rounding. There are no branches, so that compilers turn loops over it into vector code.
//
// Steps: (1) normal results: add half a unit in the target's last place to the bits, less one for a
// tie to even, and shift. A carry correctly raises the exponent. (2) Subnormal results: add
// a power of two (kMagic) whose last place is the target's smallest subnormal; the addition rounds.
// (3) NaN: keep the first payload bits and set the quiet bit. (4) Select one of the three by masks.
//
// Example, f32 to bf16 (shift 16): 1 + 2^-8 has the bits 0x3f808000, exactly half way. The last
// kept bit is 0, so 0x7fff is added: 0x3f80ffff >> 16 = 0x3f80 = 1, the even neighbour.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "shardproof/localtensor/dtype/small_float.h"
#include "shardproof/localtensor/dtype/widen_float.h"

namespace shardproof::detail {

// Bit layout of the wide types. Bits are signed because SSE2 has signed comparisons only.
template <typename Float>
struct Wide;
template <>
struct Wide<float> {
  using Bits = int32_t;
  static constexpr int kMantissa = 23, kBias = 127;
};
template <>
struct Wide<double> {
  using Bits = int64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
};

// Returns x rounded to the format of Storage. Overflow gives infinity, or NaN for f8e4m3.
template <typename Storage, typename Float>
constexpr Storage round_to(Float x) {
  using F = Format<Storage>;
  using W = Wide<Float>;
  using Bits = typename W::Bits;
  using UnsignedBits = std::make_unsigned_t<Bits>;
  constexpr int kShift = W::kMantissa - F::kMantissa;
  constexpr int kWideSignAt = sizeof(Bits) * 8 - 1;
  constexpr Bits kOne = 1;
  // A copy of the value: device code cannot refer to a constant of a class.
  constexpr Bits kOverflow = F::kOverflow;
  constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());
  constexpr Bits kMinNormal = Bits{W::kBias - F::kBias + 1} << W::kMantissa;
  // The last place of kMagic is the target's smallest subnormal, so that adding it rounds.
  constexpr Bits kMagic = Bits{W::kBias + 1 - F::kBias + kShift} << W::kMantissa;

  const auto bits = static_cast<UnsignedBits>(std::bit_cast<Bits>(x));
  const auto sign = static_cast<Bits>(bits >> kWideSignAt);
  const Bits size = std::bit_cast<Bits>(x) & std::numeric_limits<Bits>::max();
  // Unsigned, because a NaN may have all bits set, and the sum then overflows.
  const UnsignedBits raised = static_cast<UnsignedBits>(size) +
                              ((UnsignedBits{1} << (kShift - 1)) - 1) +
                              static_cast<UnsignedBits>(size >> kShift & 1);
  const auto rounded = static_cast<Bits>(raised >> kShift);
  const Bits normal =
      std::min<Bits>(rounded - (Bits{W::kBias - F::kBias} << F::kMantissa), kOverflow);
  const Bits subnormal =
      std::bit_cast<Bits>(std::bit_cast<Float>(size) + std::bit_cast<Float>(kMagic)) - kMagic;
  const Bits nan = F::kQuietNan | (size >> kShift & ((kOne << F::kMantissa) - 1));
  // If both types have the same exponents (f32 to bf16), subnormals shift and round like normals.
  const Bits finite =
      W::kBias == F::kBias ? normal : selected(size < kMinNormal, subnormal, normal);
  const Bits result = selected(size > kInfinity, nan, finite);
  return Storage{static_cast<decltype(Storage::bits)>(sign << F::kSignAt | result)};
}

}  // namespace shardproof::detail
