// Items of ops that read or write by an index; each moves or writes one element. An item whose
// index is out of range sets LaneCall::error_flag.
#pragma once

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/load_store_element.h"

namespace shardproof {

// Runs the host's body on host memory; the body throws the Error that names the bad index.
[[noreturn]] void throw_item_error(const LanePlan& plan, const LaneCall& on_host);

// Takes `count` indices for each of `outer` slices of [held, row] elements. The lane holds the
// entries from `start` on, of `size` in all; entries that other lanes hold give 0.
struct TakeRowsItem {
  static constexpr bool kChecks = true;
  int data = 0, index = 1;  // inputs
  int64_t size, start, held, count, row, bytes;
  bool from_end = false;  // true: -1 is the last row

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t slice = item / row, named = lane.in<int64_t>(index)[slice % count];
    const int64_t found = from_end && named < 0 ? named + size : named;
    if (found < 0 || found >= size) {
      *lane.error_flag = 1;
      return;
    }
    const int64_t from = (slice / count * held + found - start) * row + item % row;
    const bool here = found >= start && found < start + held;
    copy_or_clear(here ? lane.inputs[data] + from * bytes : nullptr, lane.outputs[0] + item * bytes,
                  bytes);
  }
};

// Takes one element along a dim; the index may be smaller than the data on the other dims.
struct TakeAlongItem {
  static constexpr bool kChecks = true;
  int dims, dim;
  int64_t size, start, held, bytes;  // as in TakeRowsItem
  int64_t shape[Dims::kCapacity],
      strides[Dims::kCapacity];  // shape of the index, strides of the data

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t value = lane.in<int64_t>(1)[item];
    if (value < 0 || value >= size) {
      *lane.error_flag = 1;
      return;
    }
    int64_t at = (value - start) * strides[dim], rest = item;
    for (int d = dims - 1; d >= 0; --d) {
      at += d == dim ? 0 : rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    const bool here = value >= start && value < start + held;
    copy_or_clear(here ? lane.inputs[0] + at * bytes : nullptr, lane.outputs[0] + item * bytes,
                  bytes);
  }
};

struct OneHotItem {
  static constexpr bool kChecks = true;
  int64_t classes;

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t label = lane.in<int64_t>(0)[item / classes];
    if (label < 0 || label >= classes) *lane.error_flag = 1;
    lane.out<int64_t>(0)[item] = item % classes == label ? 1 : 0;
  }
};

}  // namespace shardproof
