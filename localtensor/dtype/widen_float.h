// widen: the four small float formats to f32, which holds all their values exactly.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "shardproof/localtensor/dtype/small_float.h"

namespace shardproof::detail {

constexpr float widen(BF16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// A multiplication moves normal numbers to f32's exponent, a subtraction subnormal ones; both are
// exact. Method: M. Dukhan's FP16 library (Maratyszcza/FP16).
constexpr float widen(F16 x) {
  const int32_t size = x.bits & 0x7fff;
  const uint32_t sign = uint32_t{x.bits} >> 15 << 31;
  const float normal = std::bit_cast<float>((size << 13) + (224 << 23)) * 0x1p-112f;
  const float subnormal = std::bit_cast<float>(size | 126 << 23) - 0.5f;
  const int32_t magnitude =
      selected(size < 0x400, std::bit_cast<int32_t>(subnormal), std::bit_cast<int32_t>(normal));
  return std::bit_cast<float>(sign | static_cast<uint32_t>(magnitude));
}

// Computes one entry of the tables below.
template <typename Storage>
constexpr float widen_slowly(Storage x) {
  using F = Format<Storage>;
  const int size = x.bits & ((1 << F::kSignAt) - 1);
  const int mantissa = size & ((1 << F::kMantissa) - 1);
  const int exponent = size >> F::kMantissa;
  const uint32_t sign = uint32_t{x.bits} >> F::kSignAt << 31;
  const bool infinite = F::kOverflow != F::kQuietNan && size == F::kOverflow;
  if (infinite) return std::bit_cast<float>(sign | 0x7f800000u);
  if (size >= F::kOverflow)
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
constexpr float widen(F8E4M3 x) { return kF8E4M3Values[x.bits]; }
constexpr float widen(F8E5M2 x) { return kF8E5M2Values[x.bits]; }

}  // namespace shardproof::detail
