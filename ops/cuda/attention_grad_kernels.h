// The gradient of attention on a device, for a block of rows of all units at once. In the host's
// order it computes scores, weights, slopes, then the products, which are added to those of other
// blocks.
#pragma once

#include <algorithm>

#include "shardproof/ops/attention/attention_item.h"
#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/item_operands.h"
#include "shardproof/ops/cuda/parallel_fold.h"

namespace shardproof {

// One block of rows of every unit: line i is row i % lines_of_unit of unit i / lines_of_unit.
template <typename T>
struct AttentionGradBlock {
  AttentionGradItem<T> item;
  Operands operands;
  int64_t first_row, lines_of_unit;
  T *weights, *slopes, *largest, *sums, *deltas;

  constexpr const Attention& a() const { return item.a; }
  constexpr int64_t lines() const { return a().units() * lines_of_unit; }
  constexpr int64_t item_of(int64_t line) const {
    return line / lines_of_unit * a().rows() + first_row + line % lines_of_unit;
  }
  constexpr bool is_seen(int64_t line, int64_t key) const {
    return key < a().seen_by(item_of(line));
  }
};
template <typename T>
struct AttentionGradWeights {
  AttentionGradBlock<T> b;
  constexpr T operator()(int64_t line, int64_t key) const {
    return b.weights[line * b.a().keys + key];
  }
};
// Terms of D.
template <typename T>
struct AttentionGradTerms {
  AttentionGradBlock<T> b;
  constexpr T operator()(int64_t line, int64_t key) const {
    const int64_t index = line * b.a().keys + key;
    return b.weights[index] * b.slopes[index];
  }
};
// Scores, and the slopes dP.
template <typename T>
struct AttentionGradScoreBody {
  AttentionGradBlock<T> b;
  constexpr void operator()(int64_t index) const {
    using Item = AttentionGradItem<T>;
    const Attention& a = b.a();
    const int64_t line = index / a.keys, key = index % a.keys, item = b.item_of(line);
    const int64_t place = a.kv_of(item) * a.keys + key;
    const LaneCall lane = b.operands.lane();
    const bool is_seen = b.is_seen(line, key);
    b.weights[index] = is_seen ? AttentionItem<T>{a}.score(lane.in<T>(Item::kQuery) + item * a.dim,
                                                           lane.in<T>(Item::kKey) + place * a.dim)
                               : MaxFold::identity<T>();
    b.slopes[index] =
        is_seen ? AttentionItem<T>::dot(lane.in<T>(Item::kGradient) + item * a.value_dim,
                                        lane.in<T>(Item::kValue) + place * a.value_dim, a.value_dim)
                : T{0};
  }
};
template <typename T>
struct AttentionGradPowerBody {
  AttentionGradBlock<T> b;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / b.a().keys;
    const T* log_sums = b.operands.lane().template in<T>(AttentionGradItem<T>::kLogSum);
    const T largest = log_sums ? log_sums[b.item_of(line)] : b.largest[line];
    T& to = b.weights[index];
    to = b.is_seen(line, index % b.a().keys) ? AttentionItem<T>::weight(to, largest) : T{0};
  }
};
template <typename T>
struct AttentionGradShareBody {
  AttentionGradBlock<T> b;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / b.a().keys;
    if (b.is_seen(line, index % b.a().keys)) b.weights[index] /= b.sums[line];
  }
};
template <typename T>
struct AttentionGradDeltaBody {
  AttentionGradBlock<T> b;
  constexpr void operator()(int64_t line) const {
    b.deltas[line] = b.item.by_result(b.item_of(line), b.operands.lane());
  }
};
template <typename T>
struct AttentionGradSlopeBody {
  AttentionGradBlock<T> b;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / b.a().keys;
    const T shift = b.item.shift(b.item_of(line), b.deltas[line], b.operands.lane());
    T& to = b.slopes[index];
    if (b.is_seen(line, index % b.a().keys)) to = b.item.moved(b.weights[index], to, shift);
  }
};
template <typename T>
struct AttentionGradQueryBody {
  AttentionGradBlock<T> b;
  constexpr void operator()(int64_t index) const {
    const Attention& a = b.a();
    const int64_t line = index / a.dim, i = index % a.dim, item = b.item_of(line);
    const LaneCall lane = b.operands.lane();
    const T* k = lane.in<T>(AttentionGradItem<T>::kKey) + a.kv_of(item) * a.keys * a.dim;
    T sum = 0;
    for (int64_t j = 0; j < a.keys; ++j) sum += b.slopes[line * a.keys + j] * k[j * a.dim + i];
    lane.out<T>(0)[item * a.dim + i] = sum;
  }
};
// Adds the block's part of dk or dv.
template <typename T>
struct AttentionGradKeyBody {
  AttentionGradBlock<T> b;
  const T* parts;  // of the lines
  int input, output;
  int64_t dim;
  constexpr void operator()(int64_t index) const {
    const int64_t keys = b.a().keys, key = index / dim % keys, unit = index / dim / keys;
    const LaneCall lane = b.operands.lane();
    T sum = 0;
    for (int64_t r = 0; r < b.lines_of_unit; ++r) {
      const int64_t line = unit * b.lines_of_unit + r;
      sum += parts[line * keys + key] * lane.in<T>(input)[b.item_of(line) * dim + index % dim];
    }
    T& to = lane.out<T>(output)[index];
    to = (b.first_row == 0 ? T{0} : to) + sum;
  }
};

template <typename T>
void launch_block(const KernelCall& call, const AttentionGradBlock<T>& b, T* slots) {
  using Item = AttentionGradItem<T>;
  const Attention& a = b.a();
  const int64_t lines = b.lines(), keys = a.keys, all = lines * keys;
  const FoldShape shape{lines, 1, keys, keys};
  const bool has_sums = b.operands.inputs[Item::kLogSum] != nullptr;
  if (all > 0) {
    launch(call.stream, all, AttentionGradScoreBody<T>{b});
    if (!has_sums)
      fold_lines<MaxFold>(call.stream, shape, AttentionGradWeights<T>{b}, slots, b.largest);
    launch(call.stream, all, AttentionGradPowerBody<T>{b});
    if (!has_sums) {
      fold_lines<SumFold>(call.stream, shape, AttentionGradWeights<T>{b}, slots, b.sums);
      launch(call.stream, all, AttentionGradShareBody<T>{b});
    }
    if (b.operands.inputs[Item::kResult] != nullptr)
      launch(call.stream, lines, AttentionGradDeltaBody<T>{b});
    else
      fold_lines<SumFold>(call.stream, shape, AttentionGradTerms<T>{b}, slots, b.deltas);
    launch(call.stream, all, AttentionGradSlopeBody<T>{b});
  }
  launch(call.stream, lines * a.dim, AttentionGradQueryBody<T>{b});
  launch(call.stream, a.units() * keys * a.dim,
         AttentionGradKeyBody<T>{b, b.slopes, Item::kQuery, 1, a.dim});
  launch(call.stream, a.units() * keys * a.value_dim,
         AttentionGradKeyBody<T>{b, b.weights, Item::kGradient, 2, a.value_dim});
}

template <typename T>
void launch_items(const KernelCall& call, const AttentionGradItem<T>& item, int64_t,
                  const Operands& operands) {
  const Attention& a = item.a;
  const int64_t at_once = std::min(item.kRowsAtOnce, a.rows());
  const int64_t lines = a.units() * at_once, all = lines * a.keys;
  const DeviceScratch<T> weights(call, all), slopes(call, all);
  const DeviceScratch<T> largest(call, lines), sums(call, lines), deltas(call, lines);
  const DeviceScratch<T> slots(call, all > 0 ? FoldShape{lines, 1, a.keys, a.keys}.ways() : 0);
  int64_t row = 0;
  do {  // once at least, since dk and dv are 0 without rows
    launch_block(
        call,
        AttentionGradBlock<T>{item, operands, row, std::min(at_once, a.rows() - row), weights.get(),
                              slopes.get(), largest.get(), sums.get(), deltas.get()},
        slots.get());
    row += item.kRowsAtOnce;
  } while (row < a.rows());
}

}  // namespace shardproof
