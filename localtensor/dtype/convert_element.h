// Conversion of one element. Every storage type has one compute type (f32, f64 or i64) that holds
// it exactly; storing a value of a compute type rounds once. All functions are constexpr, so that
// host and device code convert to the same bits.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "shardproof/localtensor/dtype/round_float.h"

namespace shardproof::element {

template <typename T>
inline constexpr bool kIsComplex = std::is_same_v<T, C64> || std::is_same_v<T, C128>;
template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, F16> || std::is_same_v<T, BF16> ||
                                      std::is_same_v<T, F8E4M3> || std::is_same_v<T, F8E5M2>;
template <typename T>
inline constexpr bool kIsDouble = std::is_same_v<T, double> || std::is_same_v<T, C128>;

template <typename T>
using ComputeOf = std::conditional_t<
    kIsDouble<T>, double,
    std::conditional_t<kIsSmallFloat<T> || std::is_same_v<T, float> || std::is_same_v<T, C64>,
                       float, int64_t>>;

// Returns x truncated toward zero; NaN gives 0, a value out of range the nearest int64.
template <typename Float>
constexpr int64_t truncated(Float x) {
  if (x != x) return 0;
  if (x >= Float{0x1p63}) return std::numeric_limits<int64_t>::max();
  if (x < -Float{0x1p63}) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

// Returns x as f64 rounded to odd: if low bits are lost, the last kept bit is set. A later rounding
// to at most 50 bits then gives the same result as one rounding of the integer.
constexpr double nearly(int64_t x) {
  constexpr int kDropped = 11;
  const uint64_t size = x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  if (size < uint64_t{1} << 53) return static_cast<double>(x);
  const uint64_t lost = (size & ((uint64_t{1} << kDropped) - 1)) != 0 ? 1 : 0;
  const double kept = static_cast<double>((size >> kDropped) | lost) * (1 << kDropped);
  return x < 0 ? -kept : kept;
}

// Returns x in its compute type; exact, except that the imaginary part of a complex number is
// dropped.
template <typename Compute, typename Storage>
constexpr Compute loaded(Storage x) {
  if constexpr (kIsSmallFloat<Storage>) {
    return detail::widen(x);
  } else if constexpr (kIsComplex<Storage>) {
    return x.real();
  } else if constexpr (std::is_same_v<Storage, Bool>) {
    return x.value != 0;
  } else {
    return x;
  }
}

// Returns x in the storage type, with the conversions of dtype.h.
template <typename Storage, typename Compute>
constexpr Storage stored(Compute x) {
  if constexpr (kIsSmallFloat<Storage>) {
    if constexpr (std::is_same_v<Compute, int64_t>) {
      return detail::round_to<Storage>(nearly(x));
    } else {
      return detail::round_to<Storage>(x);
    }
  } else if constexpr (kIsComplex<Storage>) {
    return {static_cast<typename Storage::value_type>(x), 0};
  } else if constexpr (std::is_same_v<Storage, Bool>) {
    return Bool{static_cast<uint8_t>(x != 0)};
  } else if constexpr (std::is_integral_v<Storage> && std::is_floating_point_v<Compute>) {
    return static_cast<Storage>(truncated(x));
  } else {
    return static_cast<Storage>(x);
  }
}

}  // namespace shardproof::element
