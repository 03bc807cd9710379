// Exponentials and logarithms of f32 and f64, computed in double and rounded once; fraction and
// sign bit of a number.
#pragma once

#include "shardproof/ops/elementwise/trigonometric_functors.h"

namespace shardproof::functor {

struct Expm1 : InDouble<Expm1> {
  template <typename D>
  static constexpr D of(D x) {
    return std::expm1(x);
  }
};
struct Exp2 : InDouble<Exp2> {
  template <typename D>
  static constexpr D of(D x) {
    return std::exp2(x);
  }
};
struct Log1p : InDouble<Log1p> {
  template <typename D>
  static constexpr D of(D x) {
    return std::log1p(x);
  }
};
struct Log2 : InDouble<Log2> {
  template <typename D>
  static constexpr D of(D x) {
    return std::log2(x);
  }
};
struct Log10 : InDouble<Log10> {
  template <typename D>
  static constexpr D of(D x) {
    return std::log10(x);
  }
};
struct Erfc : InDouble<Erfc> {
  template <typename D>
  static constexpr D of(D x) {
    return std::erfc(x);
  }
};

// Returns x - trunc(x), with the sign of x.
struct Frac {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    return x - std::trunc(x);
  }
};
struct SignBit {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr bool apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return x < 0;
    else
      return std::signbit(x);
  }
};

}  // namespace shardproof::functor
