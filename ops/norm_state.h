// The state of vector norms. A run of elements is whatever has an operator[].
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/reducers.h"

namespace shardproof {

// (sum |x|^p)^(1/p); the special exponents of vector norms.
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
  constexpr void fold(T x, int64_t, int) {
    const T size = std::abs(x);
    if (p == T{2})
      value += size * size;
    else if (p == T{1})
      value += size;
    else if (p == T{0})
      value += size != T{0} ? T{1} : T{0};
    else if (p == std::numeric_limits<T>::infinity())
      value = MaxFold::apply(value, size);
    else if (p == -std::numeric_limits<T>::infinity())
      value = MinFold::apply(value, size);
    else
      value += power(size, p);
  }
  template <typename Run>
  static constexpr void row(NormState& s, const Run& x, int64_t count, int64_t index, int pass) {
    if (s.p == T{2}) {
      // Squares of 512 elements at a time, then the fixed order of sums.
      T squares[512];
      for (int64_t start = 0; start < count; start += 512) {
        const int64_t part = count - start < 512 ? count - start : 512;
        for (int64_t i = 0; i < part; ++i) squares[i] = x[start + i] * x[start + i];
        s.value += fold_run(T{0}, squares, part, Plus());
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) s.fold(x[i], index + i, pass);
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
