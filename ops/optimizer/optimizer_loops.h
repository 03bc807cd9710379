// Tile loops of optimizer steps (formulas of torch.optim: SGD with momentum, Adam, AdamW).
// TileNumbers::real holds the attributes.
#pragma once

#include <cmath>

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {

// Indices of the attributes in TileNumbers::real.
enum SgdNumber { kLr, kMomentum, kDampening, kSgdDecay, kNesterov };
enum AdamNumber { kAdamLr, kBeta1, kBeta2, kEps, kDecay, kCorrection1, kRootCorrection2 };

template <typename C>
struct Numbers {
  explicit constexpr Numbers(const TileCall& call) {
    for (size_t i = 0; i < 8; ++i) value[i] = static_cast<C>(call.numbers->real[i]);
  }
  constexpr C operator[](int i) const { return value[i]; }
  // Returns 1 - number i, rounded once: 1 - 0.999 in f32 would lose three digits.
  static constexpr C rest(const TileCall& call, int i) {
    return static_cast<C>(1 - call.numbers->real[static_cast<size_t>(i)]);
  }
  C value[8];
};

struct SgdLoop {
  static constexpr unsigned kTypes = kFloats;
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  using Result = C;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const Numbers<C> n(call);
    const C* __restrict w = tile_input<C>(call, 0);
    const C* __restrict g = tile_input<C>(call, 1);
    C* __restrict out = tile_output<C>(call, 0);
    for (int64_t i = 0; i < call.count; ++i) out[i] = w[i] - n[kLr] * (g[i] + n[kSgdDecay] * w[i]);
  }
};

struct MomentumLoop {
  static constexpr unsigned kTypes = kFloats;
  static constexpr int kInputs = 3, kOutputs = 2;
  template <typename C>
  using Result = C;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const Numbers<C> n(call);
    const C* __restrict w = tile_input<C>(call, 0);
    const C* __restrict g = tile_input<C>(call, 1);
    const C* __restrict buffer = tile_input<C>(call, 2);
    C* __restrict out = tile_output<C>(call, 0);
    C* __restrict next = tile_output<C>(call, 1);
    const C kept = n.rest(call, kDampening), nesterov = n[kNesterov];
    for (int64_t i = 0; i < call.count; ++i) {
      const C gradient = g[i] + n[kSgdDecay] * w[i];
      const C speed = n[kMomentum] * buffer[i] + kept * gradient;
      const C step = nesterov != C{0} ? gradient + n[kMomentum] * speed : speed;
      next[i] = speed;
      out[i] = w[i] - n[kLr] * step;
    }
  }
};

template <bool kDecoupled>
struct AdamLoop {
  static constexpr unsigned kTypes = kFloats;
  static constexpr int kInputs = 4, kOutputs = 3;
  template <typename C>
  using Result = C;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const Numbers<C> n(call);
    const C* __restrict w = tile_input<C>(call, 0);
    const C* __restrict g = tile_input<C>(call, 1);
    const C* __restrict m = tile_input<C>(call, 2);
    const C* __restrict v = tile_input<C>(call, 3);
    C* __restrict out = tile_output<C>(call, 0);
    C* __restrict next_m = tile_output<C>(call, 1);
    C* __restrict next_v = tile_output<C>(call, 2);
    const auto& exact = call.numbers->real;
    const C size = static_cast<C>(exact[kAdamLr] / exact[kCorrection1]);
    const C rest1 = n.rest(call, kBeta1), rest2 = n.rest(call, kBeta2);
    for (int64_t i = 0; i < call.count; ++i) {
      const C gradient = kDecoupled ? g[i] : g[i] + n[kDecay] * w[i];
      const C parameter = kDecoupled ? w[i] - n[kAdamLr] * n[kDecay] * w[i] : w[i];
      const C first = n[kBeta1] * m[i] + rest1 * gradient;
      const C second = n[kBeta2] * v[i] + rest2 * gradient * gradient;
      const C scale = std::sqrt(second) / n[kRootCorrection2] + n[kEps];
      next_m[i] = first;
      next_v[i] = second;
      out[i] = parameter - size * (first / scale);
    }
  }
};

}  // namespace shardproof
