// Items of ops that read by an index: each moves what one index names. An index out of range is
// trouble.
#pragma once

#include "shardproof/ops/lane_kernel.h"

namespace shardproof {

// Runs the host's body on host memory, which throws an Error that says what is wrong.
[[noreturn]] void tell_trouble(const LanePlan& plan, const LaneCall& on_host);

// `count` indices for each of `outer` slices of [size, row] bytes.
struct TakeRowsItem {
  static constexpr bool kChecks = true;
  int data = 0, index = 1;  // inputs
  int64_t size, count, row_bytes;
  bool from_end = false;  // -1 is the last row

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t named = lane.in<int64_t>(index)[item % count];
    const int64_t row = from_end && named < 0 ? named + size : named;
    if (row < 0 || row >= size) {
      *lane.trouble = 1;
      return;
    }
    const std::byte* from = lane.inputs[data] + (item / count * size + row) * row_bytes;
    std::byte* to = lane.outputs[0] + item * row_bytes;
    for (int64_t b = 0; b < row_bytes; ++b) to[b] = from[b];
  }
};

// One element along a dim; the index may cover less of the other dims than the data.
struct TakeAlongItem {
  static constexpr bool kChecks = true;
  int dims, dim;
  int64_t size, bytes;
  int64_t shape[Dims::kCapacity], strides[Dims::kCapacity];  // of the index; of the data

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t value = lane.in<int64_t>(1)[item];
    if (value < 0 || value >= size) {
      *lane.trouble = 1;
      return;
    }
    int64_t at = value * strides[dim], rest = item;
    for (int d = dims - 1; d >= 0; --d) {
      at += d == dim ? 0 : rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    for (int64_t b = 0; b < bytes; ++b)
      lane.outputs[0][item * bytes + b] = lane.inputs[0][at * bytes + b];
  }
};

struct OneHotItem {
  static constexpr bool kChecks = true;
  int64_t classes;

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t label = lane.in<int64_t>(0)[item];
    if (label < 0 || label >= classes) *lane.trouble = 1;
    int64_t* out = lane.out<int64_t>(0) + item * classes;
    for (int64_t c = 0; c < classes; ++c) out[c] = c == label ? 1 : 0;
  }
};

}  // namespace shardproof
