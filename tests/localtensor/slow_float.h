// The small float formats by their definition: a table of all values, and rounding by search. Slow,
// and independent of the library's bit operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof::slow {

// long double holds any i64, and values close enough to the midpoints of the small formats.
static_assert(std::numeric_limits<long double>::digits >= 64);

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
  std::vector<long double> values;  // by bits, finite and not negative

  Format(int exponent, int mantissa, int its_bias, bool infinity)
      : exponent_bits(exponent), mantissa_bits(mantissa), bias(its_bias), has_infinity(infinity) {
    const uint32_t count =
        has_infinity ? ((1u << exponent) - 1) << mantissa : (1u << (exponent + mantissa)) - 1;
    for (uint32_t bits = 0; bits < count; ++bits) values.push_back(of_magnitude(bits));
  }

  long double of_magnitude(uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> mantissa_bits);
    const long double fraction = bits & ((1u << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - mantissa_bits);
    return std::ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }

  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t largest() const { return static_cast<uint32_t>(values.size()) - 1; }
  uint32_t infinity() const { return largest() + 1; }  // NaN if the format has no infinity
  bool is_negative(uint32_t bits) const { return (bits & sign_bit()) != 0; }
  bool is_nan(uint32_t bits) const {
    return (bits & (sign_bit() - 1)) >= infinity() + (has_infinity ? 1 : 0);
  }
  uint32_t quieted(uint32_t bits) const {
    return is_nan(bits) ? bits | (1u << (mantissa_bits - 1)) : bits;
  }
  // long double, because the limit of overflow is a value that the format does not have.
  long double after(uint32_t bits) const { return of_magnitude(bits + 1); }
  long double value(uint32_t bits) const {
    const uint32_t size = bits & (sign_bit() - 1);
    const long double magnitude = size < values.size() ? values[size] : INFINITY;
    return is_negative(bits) ? -magnitude : magnitude;
  }

  // Requires a value that is not NaN.
  uint32_t round(long double x) const {
    const long double size = std::abs(x);
    const uint32_t sign = std::signbit(x) ? sign_bit() : 0;
    const auto above = std::upper_bound(values.begin(), values.end(), size);
    const uint32_t low = static_cast<uint32_t>(above - values.begin()) - 1;
    const long double middle = (values[low] + after(low)) / 2;
    const bool up = size > middle || (size == middle && low % 2 == 1);
    return sign | (low + (up ? 1 : 0));
  }
};

inline const Format& format_of(DType dtype) {
  static const Format f16(5, 10, 15, true), bf16(8, 7, 127, true), f8e4m3(4, 3, 7, false),
      f8e5m2(5, 2, 15, true);
  switch (dtype) {
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::f8e4m3: return f8e4m3;
    default: return f8e5m2;
  }
}

template <typename Storage>
constexpr DType dtype_of() {
  if (std::is_same_v<Storage, F16>) return DType::f16;
  if (std::is_same_v<Storage, BF16>) return DType::bf16;
  return std::is_same_v<Storage, F8E4M3> ? DType::f8e4m3 : DType::f8e5m2;
}

}  // namespace shardproof::slow
