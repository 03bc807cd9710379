// Item of scatter_along_dim: writes, or adds, one line along the dim, as torch.scatter does.
#pragma once

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/elementwise/binary_functors.h"

namespace shardproof {

// Copies a line along the dim, then writes to it at its indices in their order. The last of several
// writes therefore stays, and sums are rounded one after the other.
struct ScatterAlongItem {
  int dims, dim;
  bool adds, has_source, floats;
  DType part;  // dtype of the parts of an element: the dtype itself, or that of two floats
  int64_t bytes, part_bytes;
  int64_t value[2];  // the bytes to write if there is no source
  int64_t shape[Dims::kCapacity], index_shape[Dims::kCapacity];
  int64_t strides[Dims::kCapacity], index_strides[Dims::kCapacity];
  int64_t source_strides[Dims::kCapacity];

  constexpr void operator()(int64_t line, const LaneCall& lane) const {
    int64_t at = 0, at_index = 0, at_source = 0, rest = line;
    bool written = true;  // false where the index does not cover the tensor
    for (int d = dims - 1; d >= 0; --d) {
      if (d == dim) continue;
      const int64_t here = rest % shape[d];
      rest /= shape[d];
      written = written && here < index_shape[d];
      at += here * strides[d];
      at_index += here * index_strides[d];
      at_source += here * source_strides[d];
    }
    const std::byte* from = lane.inputs[0] + at * bytes;
    std::byte* to = lane.outputs[0] + at * bytes;
    const int64_t step = strides[dim] * bytes;
    for (int64_t k = 0; k < shape[dim]; ++k) copy_word(from + k * step, to + k * step, bytes);
    if (!written) return;
    const std::byte* source = reinterpret_cast<const std::byte*>(value);
    for (int64_t k = 0; k < index_shape[dim]; ++k) {
      const int64_t index = lane.in<int64_t>(1)[at_index + k * index_strides[dim]];
      if (index < 0 || index >= shape[dim]) {
        *lane.error_flag = 1;
        return;
      }
      if (has_source) source = lane.inputs[2] + (at_source + k * source_strides[dim]) * bytes;
      write(to + index * step, source);
    }
  }
  // Adds through f64 or i64 and rounds once, which equals rounding in the dtype for narrow floats.
  constexpr void write(std::byte* to, const std::byte* from) const {
    if (!adds) return copy_word(from, to, bytes);
    for (int64_t b = 0; b < bytes; b += part_bytes) {
      if (floats)
        add_part<double>(to + b, from + b);
      else
        add_part<int64_t>(to + b, from + b);
    }
  }
  template <typename C>
  constexpr void add_part(std::byte* to, const std::byte* from) const {
    store_as(to, part, functor::Add::apply(load_as<C>(to, part), load_as<C>(from, part)));
  }
};

}  // namespace shardproof
