// Trigonometric and hyperbolic functions and their inverses: computed in double and rounded once.
// Complex ones have the branch cuts of std.
#pragma once

#include <cmath>
#include <complex>

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

template <typename F, unsigned kMore = kComplexes>
struct InDouble {
  static constexpr unsigned kTypes = kFloats | kMore;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return static_cast<C>(F::of(C128(x)));
    else
      return static_cast<C>(F::of(static_cast<double>(x)));
  }
};

struct Sin : InDouble<Sin> {
  template <typename D>
  static constexpr D of(D x) {
    return std::sin(x);
  }
};
struct Cos : InDouble<Cos> {
  template <typename D>
  static constexpr D of(D x) {
    return std::cos(x);
  }
};
struct Sinh : InDouble<Sinh> {
  template <typename D>
  static constexpr D of(D x) {
    return std::sinh(x);
  }
};
struct Cosh : InDouble<Cosh> {
  template <typename D>
  static constexpr D of(D x) {
    return std::cosh(x);
  }
};
struct Tan : InDouble<Tan> {
  template <typename D>
  static constexpr D of(D x) {
    return std::tan(x);
  }
};
struct Asin : InDouble<Asin> {
  template <typename D>
  static constexpr D of(D x) {
    return std::asin(x);
  }
};
struct Acos : InDouble<Acos> {
  template <typename D>
  static constexpr D of(D x) {
    return std::acos(x);
  }
};
struct Atan : InDouble<Atan> {
  template <typename D>
  static constexpr D of(D x) {
    return std::atan(x);
  }
};
struct Asinh : InDouble<Asinh> {
  template <typename D>
  static constexpr D of(D x) {
    return std::asinh(x);
  }
};
struct Acosh : InDouble<Acosh> {
  template <typename D>
  static constexpr D of(D x) {
    return std::acosh(x);
  }
};
struct Atanh : InDouble<Atanh> {
  template <typename D>
  static constexpr D of(D x) {
    return std::atanh(x);
  }
};

}  // namespace shardproof::functor
