// Exponentials and logarithms, computed in double and rounded once; fraction and sign bit of a
// number.
#pragma once

#include "shardproof/ops/elementwise/trigonometric_functors.h"

namespace shardproof::functor {

struct Expm1 : InDouble<Expm1> {
  template <typename D>
  static constexpr D of(D x) {
    if constexpr (kIsComplexType<D>) {
      // exp(a) cos(b) - 1, without the digits that 1 - cos(b) loses for a small b.
      const double size = std::expm1(x.real()), half = std::sin(x.imag() / 2);
      const double real = size * std::cos(x.imag()) - 2 * half * half;
      return {real, (size + 1) * std::sin(x.imag())};
    } else {
      return std::expm1(x);
    }
  }
};
struct Exp2 : InDouble<Exp2> {
  template <typename D>
  static constexpr D of(D x) {
    if constexpr (kIsComplexType<D>)
      return std::exp(x * M_LN2);
    else
      return std::exp2(x);
  }
};
struct Log1p : InDouble<Log1p> {
  template <typename D>
  static constexpr D of(D x) {
    if constexpr (kIsComplexType<D>) {
      // log |1 + x|; near 1 from |1 + x|^2 - 1, which is a (2 + a) + b^2.
      const double a = x.real(), b = x.imag(), more = a * (2 + a) + b * b;
      const double size = std::hypot(1 + a, b);
      const bool near = more > -0.5 && more < 1;
      return {near ? std::log1p(more) / 2 : std::log(size), std::atan2(b, 1 + a)};
    } else {
      return std::log1p(x);
    }
  }
};
struct Log2 : InDouble<Log2> {
  template <typename D>
  static constexpr D of(D x) {
    if constexpr (kIsComplexType<D>)
      return std::log(x) * (1 / M_LN2);
    else
      return std::log2(x);
  }
};
struct Log10 : InDouble<Log10> {
  template <typename D>
  static constexpr D of(D x) {
    return std::log10(x);
  }
};
struct Erfc : InDouble<Erfc, 0> {
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
