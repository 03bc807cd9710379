// Special functions of f64 numbers that the C library does not have. All return NaN for NaN, and
// torch's values at poles and outside of their domains.
//
//   function      pole or edge            outside of the domain
//   digamma       -+inf at +-0            NaN at -1, -2, ..
//   zeta          inf at q = 0, -1, ..    NaN for s < 1, and for q < 0 unless s is whole
//   erf_inverse   -+inf at -+1            NaN
//   ndtri         -+inf at 0, 1           NaN
//   gamma_p       1, 0 at a = 0           NaN for a < 0, x < 0, and a = x = 0
#pragma once

namespace shardproof::special {

double log_gamma(double x);       // log |gamma(x)|, inf at 0, -1, ..
double digamma(double x);         // derivative of log_gamma
double zeta(double s, double q);  // Hurwitz: sum over k of (q + k)^-s
double erf_inverse(double x);
double erfcx(double x);              // exp(x^2) erfc(x)
double ndtri(double x);              // inverse of the normal distribution
double log_ndtr(double x);           // logarithm of the normal distribution
double gamma_p(double a, double x);  // regularized incomplete gamma functions, lower
double gamma_q(double a, double x);  // and upper
// Modified Bessel functions of order 0 and 1. "scaled": times exp(-|x|).
double bessel_i0(double x);
double bessel_i1(double x);
double scaled_bessel_i0(double x);
double scaled_bessel_i1(double x);
double bessel_j0(double x);  // Bessel functions of the first kind
double bessel_j1(double x);
double bessel_y0(double x);  // and of the second kind; NaN below 0
double bessel_y1(double x);
double bessel_k0(double x);  // modified, of the second kind; NaN below 0
double bessel_k1(double x);
double scaled_bessel_k0(double x);  // times exp(x)
double scaled_bessel_k1(double x);
double airy_ai(double x);

}  // namespace shardproof::special
