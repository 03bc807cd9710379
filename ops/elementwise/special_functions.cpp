// Implements special_functions.h by Boost.Math, which computes in long double. Own formulas:
//
//   zeta       Euler and Maclaurin: the first terms, then the integral and its corrections
//   erfcx      exp(x^2) erfc(x), x^2 in two parts; from 25 on its asymptotic series
//   scaled I   exp(-|x|) I(x); from 600 on the asymptotic series, because I(x) overflows
//   scaled K   exp(x) K(x), in the same way
#include "shardproof/ops/elementwise/special_functions.h"

#include <array>
#include <boost/math/policies/policy.hpp>
#include <boost/math/special_functions/airy.hpp>
#include <boost/math/special_functions/bessel.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <limits>

namespace shardproof::special {
namespace {

namespace policies = boost::math::policies;

// Errors give infinities and NaN in place of exceptions.
constexpr auto kPolicy =
    policies::make_policy(policies::domain_error<policies::ignore_error>(),
                          policies::pole_error<policies::ignore_error>(),
                          policies::overflow_error<policies::ignore_error>(),
                          policies::underflow_error<policies::ignore_error>(),
                          policies::evaluation_error<policies::ignore_error>());

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kRootHalf = 0.70710678118654752440;
constexpr double kRootPi = 1.77245385090551602730;

bool is_whole(double x) { return x == std::floor(x); }

// Below it zeta has no value here: it adds one term for each whole number between q and 0.
constexpr double kLeastQ = -0x1p23;

// Returns 1 + s (m - 1) / (8x) + (m - 1)(m - 9) / (2! (8x)^2) + .. with m = 4 order^2 and s = sign:
// the series of a modified Bessel function at a large x. It is of the first kind for s = -1, else
// of the second.
double bessel_series(double order, double x, double sign) {
  const double m = 4 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k <= 8; ++k) {
    const double odd = 2 * k - 1;
    term *= sign * (m - odd * odd) / (k * 8 * x);
    sum += term;
  }
  return sum;
}

constexpr double kSeriesFrom = 600;

double scaled_bessel(double order, double x) {
  const double size = std::fabs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isnan(x)) return x;
  if (size >= kSeriesFrom)
    return sign * bessel_series(order, size, -1) / std::sqrt(2 * M_PI * size);
  return sign *
         static_cast<double>(std::exp(-static_cast<long double>(size)) *
                             boost::math::cyl_bessel_i(static_cast<int>(order),
                                                       static_cast<long double>(size), kPolicy));
}

double scaled_bessel_k(double order, double x) {
  if (std::isnan(x) || x < 0) return kNone;
  if (x == 0) return kInfinite;
  if (x >= kSeriesFrom) return bessel_series(order, x, 1) * std::sqrt(M_PI / (2 * x));
  return static_cast<double>(
      std::exp(static_cast<long double>(x)) *
      boost::math::cyl_bessel_k(static_cast<int>(order), static_cast<long double>(x), kPolicy));
}

double unscaled_bessel(double order, double x) {
  const double growth = std::exp(std::fabs(x));
  if (std::isinf(growth)) return order == 1 ? std::copysign(growth, x) : growth;
  return scaled_bessel(order, x) * growth;
}

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (std::isnan(x) || x == kInfinite) return x;
  if (x == 0) return std::copysign(kInfinite, -x);
  if (x < 0 && is_whole(x)) return kNone;  // of -inf too
  return boost::math::digamma(x, kPolicy);
}

double zeta(double s, double q) {
  if (std::isnan(s) || std::isnan(q)) return kNone;
  if (s == 1) return kInfinite;
  if (s < 1) return kNone;
  if (q <= 0) {
    if (is_whole(q)) return kInfinite;
    if (!is_whole(s) || q < kLeastQ) return kNone;
  }
  // Bernoulli numbers B(2k) over (2k)!.
  static constexpr std::array<double, 12> kCorrections = {
      1.0 / 12,
      -1.0 / 720,
      1.0 / 30240,
      -1.0 / 1209600,
      1.0 / 47900160,
      -691.0 / 1307674368000,
      1.0 / 74724249600,
      -3617.0 / 10670622842880000.0,
      43867.0 / 5109094217170944000.0,
      -174611.0 / 802857662698291200000.0,
      77683.0 / 14101100039391805440000.0,
      -236364091.0 / 1693824136731743669452800000.0};
  constexpr int kFirstTerms = 10;
  double sum = 0, at = q;
  for (int k = 0; k < kFirstTerms || at <= 9; ++k, at += 1) {
    const double term = std::pow(at, -s);
    sum += term;
    if (std::isinf(sum) || (at > 0 && std::fabs(term) < 1e-17 * std::fabs(sum))) return sum;
  }
  const double power = std::pow(at, -s);
  sum += at * power / (s - 1) + power / 2;
  double factor = s, over = power / at;
  for (size_t k = 0; k < kCorrections.size(); ++k) {
    const double term = kCorrections[k] * factor * over;
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum)) break;
    const double next = s + 2 * static_cast<double>(k) + 1;
    factor *= next * (next + 1);
    over /= at * at;
  }
  return sum;
}

double erf_inverse(double x) {
  if (std::isnan(x) || std::fabs(x) > 1) return kNone;
  if (std::fabs(x) == 1) return std::copysign(kInfinite, x);
  return boost::math::erf_inv(x, kPolicy);
}

double erfcx(double x) {
  if (std::isnan(x)) return x;
  if (x > 25) {
    const double square = 1 / (2 * x * x);
    double term = 1, sum = 1;
    for (int k = 1; k <= 10; ++k) {
      term *= -(2 * k - 1) * square;
      sum += term;
    }
    return sum / (x * kRootPi);
  }
  if (x < -27) return kInfinite;
  const double high = x * x, low = std::fma(x, x, -high);
  return std::exp(high) * (std::erfc(x) * (1 + low));
}

double ndtri(double x) {
  if (std::isnan(x) || x < 0 || x > 1) return kNone;
  if (x == 0 || x == 1) return x == 0 ? -kInfinite : kInfinite;
  return -boost::math::erfc_inv(2 * x, kPolicy) / kRootHalf;
}

double log_ndtr(double x) {
  if (x < -1) return std::log(erfcx(-x * kRootHalf) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x * kRootHalf) / 2);
}

double gamma_p(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNone;
  if (a == 0) return x > 0 ? 1 : kNone;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNone : 0;
  if (std::isinf(x)) return 1;
  return boost::math::gamma_p(a, x, kPolicy);
}

double gamma_q(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNone;
  if (a == 0) return x > 0 ? 0 : kNone;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? kNone : 1;
  if (std::isinf(x)) return 0;
  return boost::math::gamma_q(a, x, kPolicy);
}

double bessel_i0(double x) { return unscaled_bessel(0, x); }
double bessel_i1(double x) { return unscaled_bessel(1, x); }
double scaled_bessel_i0(double x) { return scaled_bessel(0, x); }
double scaled_bessel_i1(double x) { return scaled_bessel(1, x); }
double bessel_j0(double x) { return ::j0(x); }
double bessel_j1(double x) { return ::j1(x); }
double bessel_y0(double x) { return x < 0 ? kNone : x == 0 ? -kInfinite : ::y0(x); }
double bessel_y1(double x) { return x < 0 ? kNone : x == 0 ? -kInfinite : ::y1(x); }
double bessel_k0(double x) { return scaled_bessel_k(0, x) * std::exp(-x); }
double bessel_k1(double x) { return scaled_bessel_k(1, x) * std::exp(-x); }
double scaled_bessel_k0(double x) { return scaled_bessel_k(0, x); }
double scaled_bessel_k1(double x) { return scaled_bessel_k(1, x); }

double airy_ai(double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  return boost::math::airy_ai(x, kPolicy);
}

}  // namespace shardproof::special
