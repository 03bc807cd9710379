// Loops of activations that cut a range of x out: hardshrink and threshold, with their numbers.
#pragma once

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {

// x, and 0 where |x| <= real[0]. NaN stays.
struct HardshrinkLoop {
  static constexpr unsigned kTypes = kFloats;
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  using Result = C;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const C* __restrict x = tile_input<C>(call, 0);
    C* __restrict out = tile_output<C>(call, 0);
    const C lambd = static_cast<C>(call.numbers->real[0]);
    for (int64_t i = 0; i < call.count; ++i) out[i] = x[i] >= -lambd && x[i] <= lambd ? C{0} : x[i];
  }
};
// x, and real[1] where x <= real[0]. NaN stays.
struct ThresholdLoop {
  static constexpr unsigned kTypes = kFloats;
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  using Result = C;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const C* __restrict x = tile_input<C>(call, 0);
    C* __restrict out = tile_output<C>(call, 0);
    const C edge = static_cast<C>(call.numbers->real[0]);
    const C value = static_cast<C>(call.numbers->real[1]);
    for (int64_t i = 0; i < call.count; ++i) out[i] = x[i] <= edge ? value : x[i];
  }
};

}  // namespace shardproof
