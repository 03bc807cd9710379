// Loops of activations that replace a range of x: hardshrink and threshold, with their parameters.
#pragma once

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {

// x, and another value where `Cut` cuts x out. NaN stays.
template <typename Cut>
struct CutOutLoop {
  static constexpr unsigned kTypes = kFloats;
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  using Result = C;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const C* __restrict x = tile_input<C>(call, 0);
    C* __restrict out = tile_output<C>(call, 0);
    const C first = static_cast<C>(call.numbers->real[0]);
    const C second = static_cast<C>(call.numbers->real[1]);
    for (int64_t i = 0; i < call.count; ++i) out[i] = Cut::apply(x[i], first, second);
  }
};

// 0 where |x| <= lambd.
struct Hardshrink {
  template <typename C>
  static constexpr C apply(C x, C lambd, C) {
    return x >= -lambd && x <= lambd ? C{0} : x;
  }
};
// `value` where x <= edge.
struct Threshold {
  template <typename C>
  static constexpr C apply(C x, C edge, C value) {
    return x <= edge ? value : x;
  }
};
using HardshrinkLoop = CutOutLoop<Hardshrink>;
using ThresholdLoop = CutOutLoop<Threshold>;

}  // namespace shardproof
