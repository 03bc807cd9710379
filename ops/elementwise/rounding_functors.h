// Functors of one operand that round (floor, round), or test a value (sign, isnan). Templates on
// the compute type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

// Base of functors that round x to a whole number; integers stay unchanged.
template <typename F>
struct Whole {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return x;
    else
      return F::of(x);
  }
};
struct Floor : Whole<Floor> {
  template <typename C>
  static constexpr C of(C x) {
    return std::floor(x);
  }
};
struct Ceil : Whole<Ceil> {
  template <typename C>
  static constexpr C of(C x) {
    return std::ceil(x);
  }
};
// Rounds half to even, as in torch, whatever the rounding direction of the processor is: each step
// is exact.
struct Round : Whole<Round> {
  template <typename C>
  static constexpr C of(C x) {
    const C size = std::fabs(x), below = std::floor(size), rest = size - below;
    const bool is_even = std::floor(below / 2) == below / 2;
    const bool goes_up = rest > C(0.5) || (rest == C(0.5) && !is_even);
    return std::copysign(goes_up ? below + 1 : below, x);
  }
};
struct Trunc : Whole<Trunc> {
  template <typename C>
  static constexpr C of(C x) {
    return std::trunc(x);
  }
};
// Returns x, not beyond the largest finite number of f8e4m3. NaN stays.
struct SaturateF8E4M3 {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    constexpr C kMost = 448;
    return x > kMost ? kMost : (x < -kMost ? -kMost : x);
  }
};
struct Sign {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C x) {
    return x > C{0} ? C{1} : (x < C{0} ? C{-1} : C{0});  // NaN gives 0, as in torch
  }
};
struct IsNan {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C x) {
    return x != x;
  }
};
struct IsInf {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return false;
    else if constexpr (kIsComplexType<C>)
      return std::isinf(x.real()) || std::isinf(x.imag());
    else
      return std::abs(x) == std::numeric_limits<C>::infinity();
  }
};
struct LogicalNot {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C x) {
    return x == C{0};
  }
};
struct BitwiseNot {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C x) {
    return ~x;
  }
};

}  // namespace shardproof::functor
