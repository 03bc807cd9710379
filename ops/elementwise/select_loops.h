// Loops of ops that select or copy elements, templates on a word of the element's size.
#pragma once

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {

struct WhereLoop {
  template <typename Word>
  static constexpr void run(const TileCall& call) {
    const uint8_t* __restrict condition = tile_input<uint8_t>(call, 0);
    const Word* __restrict x = tile_input<Word>(call, 1);
    const Word* __restrict y = tile_input<Word>(call, 2);
    Word* __restrict out = tile_output<Word>(call, 0);
    for (int64_t i = 0; i < call.count; ++i) out[i] = condition[i] ? x[i] : y[i];
  }
};
struct CopyLoop {
  template <typename Word>
  static constexpr void run(const TileCall& call) {
    const Word* __restrict x = tile_input<Word>(call, 0);
    Word* __restrict out = tile_output<Word>(call, 0);
    for (int64_t i = 0; i < call.count; ++i) out[i] = x[i];
  }
};

}  // namespace shardproof
