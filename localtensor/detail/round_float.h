// The four small float formats against f32 and f64, without branches so that loops over them become
// vector code. One rounding, to nearest even, straight from the wide value.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "shardproof/localtensor/dtype.h"

namespace shardproof::detail {

template <typename Storage>
struct Format;
// kOverflow: what an overflow becomes, the bits after those of the largest finite value.
template <>
struct Format<F16> {
  static constexpr int kMantissa = 10, kBias = 15, kSignAt = 15;
  static constexpr uint32_t kOverflow = 0x7c00, kQuietNan = 0x7e00;
};
template <>
struct Format<BF16> {
  static constexpr int kMantissa = 7, kBias = 127, kSignAt = 15;
  static constexpr uint32_t kOverflow = 0x7f80, kQuietNan = 0x7fc0;
};
template <>
struct Format<F8E4M3> {
  static constexpr int kMantissa = 3, kBias = 7, kSignAt = 7;
  static constexpr uint32_t kOverflow = 0x7f, kQuietNan = 0x7f;
};
template <>
struct Format<F8E5M2> {
  static constexpr int kMantissa = 2, kBias = 15, kSignAt = 7;
  static constexpr uint32_t kOverflow = 0x7c, kQuietNan = 0x7e;
};

template <typename Float>
struct Wide;
template <>
struct Wide<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23, kBias = 127;
};
template <>
struct Wide<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
};

template <typename Storage, typename Float>
inline Storage round_to(Float x) {
  using F = Format<Storage>;
  using W = Wide<Float>;
  using Bits = typename W::Bits;
  constexpr int kShift = W::kMantissa - F::kMantissa;
  constexpr int kWideSignAt = sizeof(Bits) * 8 - 1;
  constexpr Bits kOne = 1;
  constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());
  constexpr Bits kMinNormal = Bits{W::kBias - F::kBias + 1} << W::kMantissa;
  // Its last place is the smallest subnormal of the target, so that adding it rounds to a multiple.
  constexpr Bits kMagic = Bits{W::kBias + 1 - F::kBias + kShift} << W::kMantissa;

  const Bits bits = std::bit_cast<Bits>(x);
  const Bits sign = bits >> kWideSignAt;
  const Bits size = bits & ~(kOne << kWideSignAt);
  const Bits rounded = (size + ((kOne << (kShift - 1)) - 1) + (size >> kShift & 1)) >> kShift;
  const Bits normal =
      std::min<Bits>(rounded - (Bits{W::kBias - F::kBias} << F::kMantissa), F::kOverflow);
  const Bits subnormal =
      std::bit_cast<Bits>(std::bit_cast<Float>(size) + std::bit_cast<Float>(kMagic)) - kMagic;
  const Bits nan = F::kQuietNan | (size >> kShift & ((kOne << F::kMantissa) - 1));
  const Bits finite = size < kMinNormal ? subnormal : normal;
  const Bits result = size > kInfinity ? nan : finite;
  return Storage{static_cast<decltype(Storage::bits)>(sign << F::kSignAt | result)};
}

inline float widen(BF16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// Normal numbers are moved to f32's exponent by a multiplication, subnormal ones by a subtraction;
// both are exact (the way of Maratyszcza's FP16 library).
inline float widen(F16 x) {
  const uint32_t sign = uint32_t{x.bits} >> 15 << 31;
  const uint32_t size = x.bits & 0x7fffu;
  const float normal = std::bit_cast<float>((size << 13) + (224u << 23)) * 0x1p-112f;
  const float subnormal = std::bit_cast<float>(size | 126u << 23) - 0.5f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size < 0x400 ? subnormal : normal));
}

template <typename Storage>
constexpr float widen_slowly(Storage x) {
  using F = Format<Storage>;
  const int size = x.bits & ((1 << F::kSignAt) - 1);
  const int mantissa = size & ((1 << F::kMantissa) - 1);
  const int exponent = size >> F::kMantissa;
  const uint32_t sign = uint32_t{x.bits} >> F::kSignAt << 31;
  const bool infinite = F::kOverflow != F::kQuietNan && size == static_cast<int>(F::kOverflow);
  if (infinite) return std::bit_cast<float>(sign | 0x7f800000u);
  if (size >= static_cast<int>(F::kOverflow))
    return std::bit_cast<float>(sign | 0x7fc00000u |
                                static_cast<uint32_t>(mantissa) << (23 - F::kMantissa));
  float value = static_cast<float>(exponent == 0 ? mantissa : mantissa + (1 << F::kMantissa));
  for (int e = std::max(exponent, 1); e < F::kBias + F::kMantissa; ++e) value *= 0.5f;
  for (int e = F::kBias + F::kMantissa; e < exponent; ++e) value *= 2.0f;
  return sign != 0 ? -value : value;
}

template <typename Storage>
constexpr std::array<float, 256> widening_table() {
  std::array<float, 256> table{};
  for (size_t i = 0; i < 256; ++i) table[i] = widen_slowly(Storage{static_cast<uint8_t>(i)});
  return table;
}
inline constexpr auto kF8E4M3Values = widening_table<F8E4M3>();
inline constexpr auto kF8E5M2Values = widening_table<F8E5M2>();
inline float widen(F8E4M3 x) { return kF8E4M3Values[x.bits]; }
inline float widen(F8E5M2 x) { return kF8E5M2Values[x.bits]; }

}  // namespace shardproof::detail
