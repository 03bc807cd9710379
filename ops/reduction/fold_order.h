// The order in which a run of elements is folded into one.
#pragma once

#include <cstdint>

namespace shardproof {

// Folds a run into 16 interleaved accumulators a block, so that the loop is vector code with one
// fixed order.
//
// `x` has an operator[]; Step has `apply`.
struct Plus {
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a + b;
  }
};
template <typename C, typename Run, typename Step>
constexpr C fold_run(C identity, const Run& x, int64_t count, Step) {
  constexpr int64_t kWays = 16, kBlock = 2048;
  C total = identity;
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t end = start + kBlock < count ? start + kBlock : count;
    if (end - start < kWays) {
      for (int64_t i = start; i < end; ++i) total = Step::apply(total, x[i]);
      break;
    }
    C ways[kWays];
    for (int64_t j = 0; j < kWays; ++j) ways[j] = x[start + j];
    int64_t i = start + kWays;
    for (; i + kWays <= end; i += kWays)
      for (int64_t j = 0; j < kWays; ++j) ways[j] = Step::apply(ways[j], x[i + j]);
    for (int64_t j = 0; i < end; ++i, ++j) ways[j] = Step::apply(ways[j], x[i]);
    for (int64_t half = kWays / 2; half > 0; half /= 2)
      for (int64_t j = 0; j < half; ++j) ways[j] = Step::apply(ways[j], ways[j + half]);
    total = Step::apply(total, ways[0]);
  }
  return total;
}

}  // namespace shardproof
