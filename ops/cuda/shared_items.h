// Items whose work many threads share, launch by launch, in the order of the host: rows of norms,
// attention, losses over many classes.
#pragma once

#include <algorithm>
#include <array>

#include "shardproof/ops/attention_item.h"
#include "shardproof/ops/cuda/fold_lines.h"
#include "shardproof/ops/cuda/room.h"
#include "shardproof/ops/loss_item.h"
#include "shardproof/ops/norm_item.h"

namespace shardproof {

// What items of a call read and write.
struct Operands {
  static constexpr size_t kMost = 4;
  std::array<const std::byte*, kMost> inputs;
  std::array<std::byte*, kMost> outputs;
  std::byte* scratch;
  int64_t* trouble;

  constexpr LaneCall lane() const {
    LaneCall lane;
    lane.inputs = inputs.data();
    lane.outputs = outputs.data();
    lane.scratch = scratch;
    lane.trouble = trouble;
    return lane;
  }
};

template <typename Item>
struct ItemBody {
  Item item;
  Operands operands;
  constexpr void operator()(int64_t index) const { item(index, operands.lane()); }
};

template <typename Item>
void launch_items(const KernelCall& call, const Item& item, int64_t items,
                  const Operands& operands) {
  launch(call.stream, items, ItemBody<Item>{item, operands});
}

// ---- norms ----

template <typename T>
struct NormElement {
  NormItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.in(line, operands.lane())[i];
  }
};
template <typename T>
struct NormSquare {
  NormItem<T> item;
  Operands operands;
  const T* sums;
  constexpr T operator()(int64_t line, int64_t i) const {
    const T mean = item.centered ? item.mean_of(sums[line]) : T{0};
    return typename NormItem<T>::Squares{item.in(line, operands.lane()), mean}[i];
  }
};
template <typename T>
struct NormWriteBody {
  NormItem<T> item;
  Operands operands;
  const T *sums, *squares;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / item.row;
    const T mean = item.centered ? item.mean_of(sums[line]) : T{0};
    item.write(line, index % item.row, mean, item.scale_of(squares[line]), operands.lane());
  }
};

template <typename T>
void launch_items(const KernelCall& call, const NormItem<T>& item, int64_t items,
                  const Operands& operands) {
  if (item.row < kSharedLine)
    return launch(call.stream, items, ItemBody<NormItem<T>>{item, operands});
  const FoldShape shape{items, 1, item.row, item.row};
  const Room<T> sums(call, items), squares(call, items), slots(call, shape.ways());
  if (item.centered)
    fold_lines<SumFold>(call.stream, shape, NormElement<T>{item, operands}, slots.get(),
                        sums.get());
  fold_lines<SumFold>(call.stream, shape, NormSquare<T>{item, operands, sums.get()}, slots.get(),
                      squares.get());
  launch(call.stream, items * item.row,
         NormWriteBody<T>{item, operands, sums.get(), squares.get()});
}

// ---- attention ----

// Scores, then weights, of some items with all keys.
template <typename T>
struct Scores {
  AttentionItem<T> item;
  Operands operands;
  int64_t first;
  T *scores, *largest, *sums;

  constexpr int64_t seen(int64_t line) const {
    return item.a.seen_from(item.a.first_query + (first + line) % item.a.queries);
  }
  constexpr T operator()(int64_t line, int64_t key) const {
    return scores[line * item.a.keys + key];
  }
};
template <typename T>
struct ScoreBody {
  Scores<T> s;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / s.item.a.keys, key = index % s.item.a.keys;
    s.scores[index] = key < s.seen(line) ? s.item.score(s.first + line, key, s.operands.lane())
                                         : MaxFold::identity<T>();
  }
};
template <typename T>
struct WeightBody {
  Scores<T> s;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / s.item.a.keys, key = index % s.item.a.keys;
    s.scores[index] =
        key < s.seen(line) ? AttentionItem<T>::weight(s.scores[index], s.largest[line]) : T{0};
  }
};
template <typename T>
struct MixBody {
  Scores<T> s;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / s.item.a.value_dim, keys = s.item.a.keys;
    s.item.mix_one(s.first + line, index % s.item.a.value_dim, s.seen(line), s.scores + line * keys,
                   keys > 0 ? s.sums[line] : T{0}, s.operands.lane());
  }
};

template <typename T>
void launch_items(const KernelCall& call, const AttentionItem<T>& item, int64_t items,
                  const Operands& operands) {
  constexpr int64_t kMostScores = int64_t{1} << 25;
  const int64_t keys = item.a.keys, at_once = std::max<int64_t>(1, kMostScores / (keys + 1));
  const int64_t most = std::min(items, at_once);
  const FoldShape whole{most, 1, keys, keys};
  const Room<T> scores(call, most * keys), largest(call, most), sums(call, most);
  const Room<T> slots(call, keys > 0 ? whole.ways() : 0);
  for (int64_t first = 0; first < items; first += most) {
    const int64_t lines = std::min(most, items - first);
    const Scores<T> s{item, operands, first, scores.get(), largest.get(), sums.get()};
    const FoldShape shape{lines, 1, keys, keys};
    launch(call.stream, lines * keys, ScoreBody<T>{s});
    if (keys > 0) fold_lines<MaxFold>(call.stream, shape, s, slots.get(), largest.get());
    launch(call.stream, lines * keys, WeightBody<T>{s});
    if (keys > 0) fold_lines<SumFold>(call.stream, shape, s, slots.get(), sums.get());
    launch(call.stream, lines * item.a.value_dim, MixBody<T>{s});
  }
}

// ---- losses ----

template <typename T>
struct Logits {
  LossItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.row_of(line, operands.lane())[i];
  }
};
template <typename T>
struct Exponentials {
  LossItem<T> item;
  Operands operands;
  const T* most;
  constexpr T operator()(int64_t line, int64_t i) const {
    return typename LossItem<T>::Exponentials{item.row_of(line, operands.lane()), most[line]}[i];
  }
};
template <typename T>
struct LossBody {
  LossItem<T> item;
  Operands operands;
  const T *most, *sums, *totals;
  constexpr void operator()(int64_t r) const {
    const LaneCall lane = operands.lane();
    const bool whole = item.kind == LossKind::cross_entropy && item.counts(r, lane);
    item.take(r, whole ? std::log(sums[r]) + most[r] : T{0},
              item.loss.smoothing != 0 ? totals[r] : T{0}, lane);
  }
};

template <typename T>
void launch_items(const KernelCall& call, const LossItem<T>& item, int64_t items,
                  const Operands& operands) {
  if (item.loss.classes < kSharedLine)
    return launch(call.stream, items, ItemBody<LossItem<T>>{item, operands});
  const FoldShape shape{items, 1, item.loss.classes, item.loss.classes};
  const Room<T> most(call, items), sums(call, items), totals(call, items);
  const Room<T> slots(call, shape.ways());
  const Logits<T> logits{item, operands};
  if (item.kind == LossKind::cross_entropy) {
    fold_lines<MaxFold>(call.stream, shape, logits, slots.get(), most.get());
    fold_lines<SumFold>(call.stream, shape, Exponentials<T>{item, operands, most.get()},
                        slots.get(), sums.get());
  }
  if (item.loss.smoothing != 0)
    fold_lines<SumFold>(call.stream, shape, logits, slots.get(), totals.get());
  launch(call.stream, items, LossBody<T>{item, operands, most.get(), sums.get(), totals.get()});
}

}  // namespace shardproof
