// The state of argmax and argmin: the first index of the largest (smallest) element. NaN counts
// as the largest and as the smallest.
#pragma once

#include "shardproof/ops/reduction/reducers.h"

namespace shardproof {

template <typename T>
struct Best {
  T value;
  int64_t index;  // -1: no element yet
};

template <bool kLargest>
struct BestFold {
  static constexpr bool kChooses = true;
  template <typename B>
  static constexpr B identity() {
    return {{}, -1};
  }
  template <typename T>
  static constexpr Best<T> apply(const Best<T>& a, const Best<T>& b) {
    return beats(b, a) ? b : a;
  }
  template <typename T>
  static constexpr bool beats(const Best<T>& x, const Best<T>& y) {
    if (y.index < 0) return true;
    const bool better = kLargest ? x.value > y.value : x.value < y.value;
    if (better) return x.index >= 0;
    const bool worse = kLargest ? x.value < y.value : x.value > y.value;
    if (worse || x.index < 0) return false;
    const bool x_nan = x.value != x.value, y_nan = y.value != y.value;
    return x_nan == y_nan ? x.index < y.index : x_nan;
  }
};

template <typename T, bool kLargest>
struct ArgMaxState {
  using Element = T;
  using Result = int64_t;
  static constexpr int kPasses = 1;
  Best<T> best;
  static constexpr ArgMaxState start(const ReduceNumbers&) { return {{T{0}, -1}}; }
  template <typename Use>
  constexpr void in_pass(int, const Use& use) {
    use(best, BestFold<kLargest>(), [](T x, int64_t index) { return Best<T>{x, index}; });
  }
  constexpr void between(int, const ReduceNumbers&) {}
  constexpr int64_t finish(const ReduceNumbers&) const { return best.index < 0 ? 0 : best.index; }
};

}  // namespace shardproof
