// exp, log, tanh and erf of f64, from std, under the names of ops/elementwise/float_math.h. They
// are templates because a constexpr function that is not a template may not call them.
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
