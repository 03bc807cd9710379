// exp, log, tanh and erf of f32 as branch-free arithmetic. Loops over them vectorize, and their
// bits are the same on every machine; a C library that dispatches by processor does not guarantee
// that.
//
// Sources: exp and log follow Moshier's Cephes (expf.c, logf.c); tanh and erf are the rational fits
// of Eigen. Errors: exp and log below 4 ulp, tanh and erf below 8 (measured by a test). Functions
// of f64, and rarer ones of f32 (computed in f64, rounded once), are std's.
#pragma once

#include <bit>
#include <cstdint>

#include "shardproof/ops/elementwise/double_math.h"

namespace shardproof {

// NaN passes both selections, because comparisons with NaN are false.
constexpr float clamp_keeping_nan(float x, float low, float high) {
  const float above = x < low ? low : x;
  return above > high ? high : above;
}

constexpr float power_of_two(int32_t exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

constexpr float exp_of(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float clamped = clamp_keeping_nan(x, -110.0f, 100.0f);
  const float shifted = clamped * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const auto whole =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound));
  const float high = clamped - n * 0.693359375f;
  const float r = high - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * (r * r) + r) + 1.0f;
  // NaN makes `whole` any number; the bounds keep the shifts defined.
  const int32_t bounded = whole > 200 ? 200 : (whole < -200 ? -200 : whole);
  const int32_t half = bounded >> 1;
  return y * power_of_two(half) * power_of_two(bounded - half);
}

constexpr float log_of(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t bits = std::bit_cast<uint32_t>(scaled);
  // Splits off the mantissa in [sqrt(1/2), sqrt(2)).
  const uint32_t moved = bits - 0x3f3504f3u;
  const auto exponent = static_cast<int32_t>(moved) >> 23;
  const float m = std::bit_cast<float>((moved & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float y = (p * m * z + e * -2.12194440e-4f) - 0.5f * z;
  const float result = (m + y) + e * 0.693359375f;
  const float at_zero = x == 0 ? -HUGE_VALF : x != x ? x : __builtin_nanf("");
  const float finite = x == HUGE_VALF ? HUGE_VALF : result;
  return x > 0 ? finite : at_zero;
}

constexpr float tanh_of(float x) {
  const float c = clamp_keeping_nan(x, -7.90531110763549805f, 7.90531110763549805f);
  const float z = c * c;
  float p = -2.76076847742355e-16f;
  p = p * z + 2.00018790482477e-13f;
  p = p * z + -8.60467152213735e-11f;
  p = p * z + 5.12229709037114e-08f;
  p = p * z + 1.48572235717979e-05f;
  p = p * z + 6.37261928875436e-04f;
  p = p * z + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * z + 1.18534705686654e-04f;
  q = q * z + 2.26843463243900e-03f;
  q = q * z + 4.89352518554385e-03f;
  const float size = x < 0 ? -x : x;
  const float fitted = c * p / q;
  return size < 0.0004f ? x : fitted;
}

constexpr float erf_of(float x) {
  const float c = clamp_keeping_nan(x, -4.0f, 4.0f);
  const float z = c * c;
  float p = -2.72614225801306e-10f;
  p = p * z + 2.77068142495902e-08f;
  p = p * z + -2.10102402082508e-06f;
  p = p * z + -5.69250639462346e-05f;
  p = p * z + -7.34990630326855e-04f;
  p = p * z + -2.95459980854025e-03f;
  p = p * z + -1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * z + -2.13374055278905e-04f;
  q = q * z + -1.68282697438203e-03f;
  q = q * z + -7.37332916720468e-03f;
  q = q * z + -1.42647390514189e-02f;
  return c * p / q;
}

}  // namespace shardproof
