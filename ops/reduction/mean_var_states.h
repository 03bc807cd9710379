// States of reductions that finish with a formula: mean, variance, logsumexp.
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/reduction/vector_norm_state.h"

namespace shardproof {

template <typename T>
struct MeanState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 1;
  T sum;
  static constexpr MeanState start(const ReduceNumbers&) { return {T{0}}; }
  template <typename Use>
  constexpr void in_pass(int, const Use& use) {
    use(sum, SumFold(), IdentityTerm());
  }
  constexpr void between(int, const ReduceNumbers&) {}
  constexpr T finish(const ReduceNumbers& n) const { return sum / static_cast<T>(n.divisor); }
};

// Two passes: the mean, then the squares of the distances from it.
template <typename T, bool kRoot>
struct VarianceState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 2;
  T mean, squares;
  static constexpr VarianceState start(const ReduceNumbers&) { return {T{0}, T{0}}; }
  template <typename Use>
  constexpr void in_pass(int pass, const Use& use) {
    if (pass == 0) return use(mean, SumFold(), IdentityTerm());
    use(squares, SumFold(), [m = mean](T x, int64_t) { return (x - m) * (x - m); });
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
  template <typename Use>
  constexpr void in_pass(int pass, const Use& use) {
    if (pass == 0) return use(most, MaxFold(), IdentityTerm());
    use(sum, SumFold(), [m = most](T x, int64_t) { return exp_of(x - m); });
  }
  // If all are -inf or one is +inf, distances are taken from 0, so that no inf - inf arises.
  constexpr void between(int pass, const ReduceNumbers&) {
    if (pass == 0 && std::isinf(most)) most = T{0};
  }
  constexpr T finish(const ReduceNumbers&) const { return most + log_of(sum); }
};

}  // namespace shardproof
