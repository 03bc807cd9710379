// The state of argmax and argmin: the first index of the best element, NaN before all.
#pragma once

#include "shardproof/ops/reduce.h"

namespace shardproof {

template <typename T, bool kLargest>
struct BestState {
  using Element = T;
  using Result = int64_t;
  static constexpr int kPasses = 1;
  T best;
  int64_t index;
  static constexpr BestState start(const ReduceNumbers&) { return {T{0}, -1}; }
  constexpr void fold(T x, int64_t i, int) {
    const bool beats = kLargest ? x > best : x < best;
    const bool first_nan = x != x && best == best;
    if (index >= 0 && !beats && !first_nan) return;
    best = x;
    index = i;
  }
  template <typename Run>
  static constexpr void row(BestState& s, const Run& x, int64_t count, int64_t first, int pass) {
    for (int64_t i = 0; i < count; ++i) s.fold(x[i], first + i, pass);
  }
  constexpr void between(int, const ReduceNumbers&) {}
  constexpr int64_t finish(const ReduceNumbers&) const { return index < 0 ? 0 : index; }
};

}  // namespace shardproof
