// f32 and f64 to the four small float formats, without branches so that loops over them become
// vector code. One rounding, to nearest even, straight from the wide value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "shardproof/localtensor/dtype/small_float.h"
#include "shardproof/localtensor/dtype/widen_float.h"

namespace shardproof::detail {

// Signed, for SSE2 compares no others.
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

template <typename Storage, typename Float>
constexpr Storage round_to(Float x) {
  using F = Format<Storage>;
  using W = Wide<Float>;
  using Bits = typename W::Bits;
  using UnsignedBits = std::make_unsigned_t<Bits>;
  constexpr int kShift = W::kMantissa - F::kMantissa;
  constexpr int kWideSignAt = sizeof(Bits) * 8 - 1;
  constexpr Bits kOne = 1;
  // By value: device code cannot refer to a class's constant.
  constexpr Bits kOverflow = F::kOverflow;
  constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());
  constexpr Bits kMinNormal = Bits{W::kBias - F::kBias + 1} << W::kMantissa;
  // Its last place is the smallest subnormal of the target, so that adding it rounds to a multiple.
  constexpr Bits kMagic = Bits{W::kBias + 1 - F::kBias + kShift} << W::kMantissa;

  const auto bits = static_cast<UnsignedBits>(std::bit_cast<Bits>(x));
  const auto sign = static_cast<Bits>(bits >> kWideSignAt);
  const Bits size = std::bit_cast<Bits>(x) & std::numeric_limits<Bits>::max();
  // A NaN may have all bits set, and overflow.
  const UnsignedBits raised = static_cast<UnsignedBits>(size) +
                              ((UnsignedBits{1} << (kShift - 1)) - 1) +
                              static_cast<UnsignedBits>(size >> kShift & 1);
  const auto rounded = static_cast<Bits>(raised >> kShift);
  const Bits normal =
      std::min<Bits>(rounded - (Bits{W::kBias - F::kBias} << F::kMantissa), kOverflow);
  const Bits subnormal =
      std::bit_cast<Bits>(std::bit_cast<Float>(size) + std::bit_cast<Float>(kMagic)) - kMagic;
  const Bits nan = F::kQuietNan | (size >> kShift & ((kOne << F::kMantissa) - 1));
  // With the exponents of the wide type (bf16 of f32) subnormals shift and round like all others.
  const Bits finite =
      W::kBias == F::kBias ? normal : selected(size < kMinNormal, subnormal, normal);
  const Bits result = selected(size > kInfinity, nan, finite);
  return Storage{static_cast<decltype(Storage::bits)>(sign << F::kSignAt | result)};
}

}  // namespace shardproof::detail
