// The order in which a contiguous run of elements is folded into one value, on the host and on a
// device.
#pragma once

#include <cstdint>

namespace shardproof {

// Folds a run into 16 interleaved accumulators per block of 2048 elements, so that the loop
// vectorizes and has one fixed order. The accumulators are combined in halves (8, 4, 2, 1), and
// block totals in order. A tail shorter than 16 is folded element by element.
//
// Example with 4 accumulators instead of 16: a run of 10 is ((x0+x4+x8) + (x2+x6)) + ((x1+x5+x9) +
// (x3+x7)).
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
