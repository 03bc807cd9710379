// The functions of float_math.h for f64: std's. Templates, since a constexpr function that is none
// may not call them.
#pragma once

#include <cmath>
#include <concepts>

namespace shardproof {

template <std::same_as<double> D>
constexpr D exp_of(D x) {
  return std::exp(x);
}
template <std::same_as<double> D>
constexpr D log_of(D x) {
  return std::log(x);
}
template <std::same_as<double> D>
constexpr D tanh_of(D x) {
  return std::tanh(x);
}
template <std::same_as<double> D>
constexpr D erf_of(D x) {
  return std::erf(x);
}

}  // namespace shardproof
