// States of reductions that finish with a formula: mean, variance, logsumexp, and norm. A run of
// elements is whatever has an operator[].
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/norm_state.h"

namespace shardproof {

template <typename T>
struct MeanState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 1;
  T sum;
  static constexpr MeanState start(const ReduceNumbers&) { return {T{0}}; }
  constexpr void fold(T x, int64_t, int) { sum += x; }
  template <typename Run>
  static constexpr void row(MeanState& s, const Run& x, int64_t count, int64_t, int) {
    s.sum += fold_run(T{0}, x, count, Plus());
  }
  constexpr void between(int, const ReduceNumbers&) {}
  constexpr T finish(const ReduceNumbers& n) const { return sum / static_cast<T>(n.divisor); }
};

// Mean first, then the squares of the distances from it.
template <typename T, bool kRoot>
struct SpreadState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 2;
  T mean, squares;
  static constexpr SpreadState start(const ReduceNumbers&) { return {T{0}, T{0}}; }
  constexpr void fold(T x, int64_t, int pass) {
    if (pass == 0)
      mean += x;
    else
      squares += (x - mean) * (x - mean);
  }
  template <typename Run>
  static constexpr void row(SpreadState& s, const Run& x, int64_t count, int64_t index, int pass) {
    if (pass == 0)
      s.mean += fold_run(T{0}, x, count, Plus());
    else
      for (int64_t i = 0; i < count; ++i) s.fold(x[i], index + i, pass);
  }
  constexpr void between(int pass, const ReduceNumbers& n) {
    if (pass == 0) mean /= static_cast<T>(n.divisor);
  }
  constexpr T finish(const ReduceNumbers& n) const {
    const double rest = n.divisor - n.real;
    const T variance = squares / static_cast<T>(rest > 0 ? rest : 0);
    return kRoot ? std::sqrt(variance) : variance;
  }
};
template <typename T>
struct LogSumExpState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 2;
  T most, sum;
  static constexpr LogSumExpState start(const ReduceNumbers&) {
    return {-std::numeric_limits<T>::infinity(), T{0}};
  }
  constexpr void fold(T x, int64_t, int pass) {
    if (pass == 0)
      most = MaxFold::apply(most, x);
    else
      sum += exp_of(x - most);
  }
  template <typename Run>
  static constexpr void row(LogSumExpState& s, const Run& x, int64_t count, int64_t index,
                            int pass) {
    for (int64_t i = 0; i < count; ++i) s.fold(x[i], index + i, pass);
  }
  // All -inf, or one +inf: distances from 0, so that no inf - inf arises.
  constexpr void between(int pass, const ReduceNumbers&) {
    if (pass == 0 && std::isinf(most)) most = T{0};
  }
  constexpr T finish(const ReduceNumbers&) const { return most + log_of(sum); }
};

}  // namespace shardproof
