// Item of cumprod, cummax, cummin: one line of a running product or extreme. For an extreme it also
// writes the index, that of the last of equal elements.
#pragma once

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/elementwise/binary_functors.h"

namespace shardproof {

enum class CumulativeKind { product, largest, smallest };

// The dim lies inside [outer, size, inner]; complex numbers have products only. Items are the outer
// * inner lines.
template <typename T>
struct RunningItem {
  CumulativeKind kind;
  int64_t size, inner;

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t first = item / inner * size * inner + item % inner;
    const T* x = lane.in<T>(0) + first;
    T* out = lane.out<T>(0) + first;
    T held{1};
    int64_t best = 0;
    for (int64_t at = 0; at < size; ++at) {
      const T now = x[at * inner];
      if (kIsComplexType<T> || kind == CumulativeKind::product) {
        held = functor::Mul::apply(held, now);
      } else if constexpr (!kIsComplexType<T>) {
        const bool beats = kind == CumulativeKind::largest ? now >= held : now <= held;
        if (at == 0 || beats || now != now) {
          held = now;
          best = at;
        }
        lane.out<int64_t>(1)[first + at * inner] = best;
      }
      out[at * inner] = held;
    }
  }
};

}  // namespace shardproof
