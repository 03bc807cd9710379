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
