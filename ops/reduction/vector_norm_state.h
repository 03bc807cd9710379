// The state of vector norms: (sum |x|^p)^(1/p), with the special cases p = 0, 1, 2, inf, -inf of
// torch.linalg.vector_norm.
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/reduction/reducers.h"

namespace shardproof {

template <typename T>
struct NormState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 1;
  T value, p;
  static constexpr NormState start(const ReduceNumbers& n) {
    const T p = static_cast<T>(n.real);
    return {p == -std::numeric_limits<T>::infinity() ? -p : T{0}, p};
  }
  template <typename Use>
  constexpr void in_pass(int, const Use& use) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    if (p == T{2}) return use(value, SumFold(), [](T x, int64_t) { return x * x; });
    if (p == kInfinity) return use(value, MaxFold(), [](T x, int64_t) { return std::abs(x); });
    if (p == -kInfinity) return use(value, MinFold(), [](T x, int64_t) { return std::abs(x); });
    if (p == T{0})
      return use(value, SumFold(), [](T x, int64_t) { return x != T{0} ? T{1} : T{0}; });
    if (p == T{1}) return use(value, SumFold(), [](T x, int64_t) { return std::abs(x); });
    use(value, SumFold(), [e = p](T x, int64_t) { return power(std::abs(x), e); });
  }
  constexpr void between(int, const ReduceNumbers&) {}
  constexpr T finish(const ReduceNumbers&) const {
    if (p == T{2}) return std::sqrt(value);
    if (p == T{0} || p == T{1} || std::isinf(p)) return value;
    return power(value, T{1} / p);
  }
  // Not inline: on a device this is hundreds of instructions, in each copy of an unrolled loop.
  [[gnu::noinline]] static constexpr T power(T x, T exponent) { return std::pow(x, exponent); }
};

}  // namespace shardproof
