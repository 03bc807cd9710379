// Functors of two operands for floats: signs, angles, and maxima that skip NaN. Templates on the
// compute type.
#pragma once

#include <cmath>
#include <cstdint>

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

struct CopySign {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return std::copysign(a, b);
  }
};
struct Atan2 {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return static_cast<C>(std::atan2(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct Hypot {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return static_cast<C>(std::hypot(static_cast<double>(a), static_cast<double>(b)));
  }
};
// log(e^a + e^b), from the larger of both. For two equal infinities their distance would be NaN.
struct LogAddExp {
  static constexpr unsigned kTypes = kFloats;
  static constexpr double of(double a, double b) {
    if (a == b) return a + 0.69314718055994530942;
    const double apart = a - b;
    return apart > 0 ? a + std::log1p(std::exp(-apart)) : b + std::log1p(std::exp(apart));
  }
  template <typename C>
  static constexpr C apply(C a, C b) {
    return static_cast<C>(of(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct LogAddExp2 {
  static constexpr unsigned kTypes = kFloats;
  static constexpr double of(double a, double b) {
    constexpr double kLog2 = 0.69314718055994530942;
    if (a == b) return a + 1;
    const double apart = a - b;
    return apart > 0 ? a + std::log1p(std::exp2(-apart)) / kLog2
                     : b + std::log1p(std::exp2(apart)) / kLog2;
  }
  template <typename C>
  static constexpr C apply(C a, C b) {
    return static_cast<C>(of(static_cast<double>(a), static_cast<double>(b)));
  }
};
// The result has the sign of the dividend, as in C.
struct Fmod {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (std::is_same_v<C, int64_t>)
      return b == 0 || b == -1 ? 0 : a % b;
    else
      return std::fmod(a, b);
  }
};
// The result is NaN only if both operands are.
struct Fmax {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a > b || b != b ? a : b;
  }
};
struct Fmin {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a < b || b != b ? a : b;
  }
};

}  // namespace shardproof::functor
