// Functors of f32 and f64 that are functions of double, rounded once.
#pragma once

#include <cmath>

#include "shardproof/ops/float_math.h"
#include "shardproof/ops/loops.h"

namespace shardproof::functor {

template <double (*F)(double)>
struct InDouble {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static C apply(C x) {
    return through_double(x, F);
  }
};

inline double sin_double(double x) { return std::sin(x); }
inline double cos_double(double x) { return std::cos(x); }
inline double sinh_double(double x) { return std::sinh(x); }
inline double cosh_double(double x) { return std::cosh(x); }
inline double tan_double(double x) { return std::tan(x); }
inline double asin_double(double x) { return std::asin(x); }
inline double acos_double(double x) { return std::acos(x); }
inline double atan_double(double x) { return std::atan(x); }
inline double asinh_double(double x) { return std::asinh(x); }
inline double acosh_double(double x) { return std::acosh(x); }
inline double atanh_double(double x) { return std::atanh(x); }
inline double expm1_double(double x) { return std::expm1(x); }
inline double exp2_double(double x) { return std::exp2(x); }
inline double log1p_double(double x) { return std::log1p(x); }
inline double log2_double(double x) { return std::log2(x); }
inline double log10_double(double x) { return std::log10(x); }
inline double erfc_double(double x) { return std::erfc(x); }

using Sin = InDouble<sin_double>;
using Cos = InDouble<cos_double>;
using Sinh = InDouble<sinh_double>;
using Cosh = InDouble<cosh_double>;
using Tan = InDouble<tan_double>;
using Asin = InDouble<asin_double>;
using Acos = InDouble<acos_double>;
using Atan = InDouble<atan_double>;
using Asinh = InDouble<asinh_double>;
using Acosh = InDouble<acosh_double>;
using Atanh = InDouble<atanh_double>;
using Expm1 = InDouble<expm1_double>;
using Exp2 = InDouble<exp2_double>;
using Log1p = InDouble<log1p_double>;
using Log2 = InDouble<log2_double>;
using Log10 = InDouble<log10_double>;
using Erfc = InDouble<erfc_double>;

// x without its whole part, with the sign of x.
struct Frac {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static C apply(C x) {
    return x - std::trunc(x);
  }
};
struct SignBit {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static bool apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return x < 0;
    else
      return std::signbit(x);
  }
};

}  // namespace shardproof::functor
