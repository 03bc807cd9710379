// Attention on a device, for some queries with all their keys at once. In the host's order it
// computes scores, their maximum, weights, their sum, and the weighted sum of values. One launch
// each.
#pragma once

#include <algorithm>

#include "shardproof/ops/attention/attention_item.h"
#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/item_operands.h"
#include "shardproof/ops/cuda/parallel_fold.h"

namespace shardproof {

// Scores, then weights, of some items and all keys.
template <typename T>
struct Scores {
  AttentionItem<T> item;
  Operands operands;
  int64_t first;
  T *scores, *largest, *sums;

  constexpr int64_t seen(int64_t line) const { return item.a.seen_by(first + line); }
  constexpr T operator()(int64_t line, int64_t key) const {
    return scores[line * item.a.keys + key];
  }
};
template <typename T>
struct ScoreBody {
  Scores<T> s;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / s.item.a.keys, key = index % s.item.a.keys;
    const LaneCall lane = s.operands.lane();
    const int64_t item = s.first + line;
    s.scores[index] =
        key < s.seen(line)
            ? s.item.score(s.item.query(item, lane), s.item.keys(item, lane) + key * s.item.a.dim)
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
struct LogSumBody {
  Scores<T> s;
  constexpr void operator()(int64_t line) const {
    const bool none = s.item.a.keys == 0;
    s.operands.lane().template out<T>(1)[s.first + line] =
        s.item.log_sum(none ? MaxFold::identity<T>() : s.largest[line], none ? T{0} : s.sums[line]);
  }
};

template <typename T>
void launch_items(const KernelCall& call, const AttentionItem<T>& item, int64_t items,
                  const Operands& operands) {
  constexpr int64_t kMostScores = int64_t{1} << 25;
  const int64_t keys = item.a.keys, at_once = std::max<int64_t>(1, kMostScores / (keys + 1));
  const int64_t most = std::min(items, at_once);
  const FoldShape whole{most, 1, keys, keys};
  const DeviceScratch<T> scores(call, most * keys), largest(call, most), sums(call, most);
  const DeviceScratch<T> slots(call, keys > 0 ? whole.ways() : 0);
  for (int64_t first = 0; first < items; first += most) {
    const int64_t lines = std::min(most, items - first);
    const Scores<T> s{item, operands, first, scores.get(), largest.get(), sums.get()};
    const FoldShape shape{lines, 1, keys, keys};
    launch(call.stream, lines * keys, ScoreBody<T>{s});
    if (keys > 0) fold_lines<MaxFold>(call.stream, shape, s, slots.get(), largest.get());
    launch(call.stream, lines * keys, WeightBody<T>{s});
    if (keys > 0) fold_lines<SumFold>(call.stream, shape, s, slots.get(), sums.get());
    launch(call.stream, lines * item.a.value_dim, MixBody<T>{s});
    if (item.a.has_lse) launch(call.stream, lines, LogSumBody<T>{s});
  }
}

}  // namespace shardproof
