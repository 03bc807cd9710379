// Items of uniform, randint and dropout: one element each, drawn by its index in the whole tensor.
// A rank may hold a block of it.
#pragma once

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/item_kernel.h"

namespace shardproof {

// A block of a row-major tensor; number() gives the global index of a local element.
struct GlobalBlock {
  int dims = 0;
  int64_t size[Dims::kCapacity], start[Dims::kCapacity], strides[Dims::kCapacity];

  constexpr uint64_t number(int64_t local) const {
    int64_t number = 0;
    for (int d = dims - 1; d >= 0; --d) {
      number += (start[d] + local % size[d]) * strides[d];
      local /= size[d];
    }
    return static_cast<uint64_t>(number);
  }
};

struct DrawItem {
  GlobalBlock block;
  Rng rng;
  bool whole;
  double low, high;

  constexpr void operator()(int64_t i, const LaneCall& lane) const {
    const uint64_t number = block.number(i);
    if (whole)
      lane.out<int64_t>(0)[i] = Rng::integer_from(rng.bits(number), static_cast<int64_t>(low),
                                                  static_cast<int64_t>(high));
    else
      lane.out<double>(0)[i] = low + (high - low) * rng.uniform(number);
  }
};

struct DropoutItem {
  GlobalBlock block;
  Rng rng;
  double probability, scale;

  constexpr void operator()(int64_t i, const LaneCall& lane) const {
    const bool kept = rng.uniform(block.number(i)) >= probability;
    lane.out<double>(0)[i] = kept ? lane.in<double>(0)[i] * scale : 0.0;
  }
};

}  // namespace shardproof
