// Items of ops that read or write by an index: each moves one element, or writes one line. An index
// out of range is trouble.
#pragma once

#include "shardproof/ops/binary_functors.h"
#include "shardproof/ops/lane_kernel.h"
#include "shardproof/ops/stored_element.h"

namespace shardproof {

// Runs the host's body on host memory, which throws an Error that says what is wrong.
[[noreturn]] void tell_trouble(const LanePlan& plan, const LaneCall& on_host);

// `count` indices for each of `outer` slices of [held, row] elements, which are entries `start` and
// the next of `size`; those of others are 0.
struct TakeRowsItem {
  static constexpr bool kChecks = true;
  int data = 0, index = 1;  // inputs
  int64_t size, start, held, count, row, bytes;
  bool from_end = false;  // -1 is the last row

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t slice = item / row, named = lane.in<int64_t>(index)[slice % count];
    const int64_t found = from_end && named < 0 ? named + size : named;
    if (found < 0 || found >= size) {
      *lane.trouble = 1;
      return;
    }
    const int64_t from = (slice / count * held + found - start) * row + item % row;
    const bool here = found >= start && found < start + held;
    copy_or_clear(here ? lane.inputs[data] + from * bytes : nullptr, lane.outputs[0] + item * bytes,
                  bytes);
  }
};

// One element along a dim; the index may cover less of the other dims than the data.
struct TakeAlongItem {
  static constexpr bool kChecks = true;
  int dims, dim;
  int64_t size, start, held, bytes;                          // as above
  int64_t shape[Dims::kCapacity], strides[Dims::kCapacity];  // of the index; of the data

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t value = lane.in<int64_t>(1)[item];
    if (value < 0 || value >= size) {
      *lane.trouble = 1;
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

// One line along the dim: copied, then written to at its indices in their order, so that of several
// writes the last stays, and sums are rounded one after the other.
struct ScatterAlongItem {
  int dims, dim;
  bool adds, has_source, floats;
  DType part;  // what elements consist of: themselves, or two floats
  int64_t bytes, part_bytes;
  int64_t value[2];  // the bytes that are written when there is no source
  int64_t shape[Dims::kCapacity], index_shape[Dims::kCapacity];
  int64_t strides[Dims::kCapacity], index_strides[Dims::kCapacity];
  int64_t source_strides[Dims::kCapacity];

  constexpr void operator()(int64_t line, const LaneCall& lane) const {
    int64_t at = 0, at_index = 0, at_source = 0, rest = line;
    bool written = true;  // an index may cover less than the tensor
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
        *lane.trouble = 1;
        return;
      }
      if (has_source) source = lane.inputs[2] + (at_source + k * source_strides[dim]) * bytes;
      write(to + index * step, source);
    }
  }
  // Through f64 or i64, with one rounding, which for narrow floats is that of the dtype.
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

struct OneHotItem {
  static constexpr bool kChecks = true;
  int64_t classes;

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t label = lane.in<int64_t>(0)[item / classes];
    if (label < 0 || label >= classes) *lane.trouble = 1;
    lane.out<int64_t>(0)[item] = item % classes == label ? 1 : 0;
  }
};

}  // namespace shardproof
