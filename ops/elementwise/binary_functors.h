// Functors of two operands, templates on the compute type. Integers wrap. Floor division and
// remainder round down, as in Python. Division by an integer 0 gives 0 here; the kernels' callers
// report it (binary_ops.cpp).
#pragma once

#include <cmath>
#include <cstdint>

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

template <typename C>
inline constexpr bool kIsWhole = std::is_same_v<C, int64_t>;

constexpr uint64_t bits_of(int64_t x) { return static_cast<uint64_t>(x); }

struct Add {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (kIsWhole<C>)
      return static_cast<C>(bits_of(a) + bits_of(b));
    else
      return a + b;
  }
};
struct Sub {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (kIsWhole<C>)
      return static_cast<C>(bits_of(a) - bits_of(b));
    else
      return a - b;
  }
};
struct Mul {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (kIsWhole<C>)
      return static_cast<C>(bits_of(a) * bits_of(b));
    else
      return a * b;
  }
};
struct Div {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a / b;
  }
};
// The result has the sign of the divisor; fmod is exact.
struct Remainder {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (kIsWhole<C>) {
      if (b == 0 || b == -1) return 0;
      const C rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      const C rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  }
};
struct FloorDiv {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (kIsWhole<C>) {
      if (b == 0) return 0;
      if (b == -1) return static_cast<C>(0 - bits_of(a));
      const C quotient = a / b;
      return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
    } else {
      if (b == 0) return a / b;
      const C rest = std::fmod(a, b);
      C quotient = (a - rest) / b;
      if (rest != 0 && (rest < 0) != (b < 0)) quotient -= C{1};
      if (quotient == 0) return std::copysign(C{0}, a / b);
      const C floored = std::floor(quotient);
      return quotient - floored > C(0.5) ? floored + C{1} : floored;
    }
  }
};
struct Pow {
  static constexpr unsigned kTypes = kAllTypes;
  static constexpr int64_t whole_power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    uint64_t result = 1, factor = bits_of(base);
    for (auto rest = bits_of(exponent); rest != 0; rest >>= 1) {
      if (rest & 1) result *= factor;
      factor *= factor;
    }
    return static_cast<int64_t>(result);
  }
  template <typename C>
  static constexpr C apply(C a, C b) {
    if constexpr (kIsWhole<C>) {
      return whole_power(a, b);
    } else {
      if (b == C{2}) return a * a;
      if (b == C{1}) return a;
      if constexpr (kIsComplexType<C>) {
        if (b == C{0}) return C{1};
        if (b == C{-1}) return C{1} / a;
        // The logarithm of 0 has no angle; torch's power of it is 0 if the exponent is positive.
        if (a == C{0} && b.real() > 0) return C{0};
        return static_cast<C>(std::pow(C128(a), C128(b)));
      } else {
        return static_cast<C>(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
    }
  }
};

}  // namespace shardproof::functor
