// Item of attention: one query, with the scores of its keys, their softmax, and the weighted sum of
// the values.
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/reduction/fold_functors.h"

namespace shardproof {

struct Attention {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, dim = 0, value_dim = 0;
  int query_dim = 0;
  bool causal = false;
  double scale = 1;
  int64_t first_query = 0;  // global index of the first local query

  constexpr int64_t items() const { return batch * heads * queries; }
  // Returns the kv head that an item's query head reads.
  constexpr int64_t kv_of(int64_t item) const {
    const int64_t head = item / queries, group = kv_heads > 0 ? heads / kv_heads : 1;
    return head / heads * kv_heads + head % heads / group;
  }
  // Returns the number of keys that the query with global index `place` sees.
  constexpr int64_t seen_from(int64_t place) const {
    return causal && place + 1 < keys ? place + 1 : keys;
  }
};

// Items are batch x heads x queries. The scores hold all keys; unseen keys have weight 0.
template <typename T>
struct AttentionItem {
  static constexpr int kQuery = 0, kKey = 1, kValue = 2;
  Attention a;

  constexpr const T* query(int64_t item, const LaneCall& lane) const {
    return lane.in<T>(kQuery) + item * a.dim;
  }
  constexpr const T* keys(int64_t item, const LaneCall& lane) const {
    return lane.in<T>(kKey) + a.kv_of(item) * a.keys * a.dim;
  }
  constexpr T score(const T* q, const T* k) const {
    T dot = 0;
    for (int64_t i = 0; i < a.dim; ++i) dot += q[i] * k[i];
    return dot * static_cast<T>(a.scale);
  }
  static constexpr T weight(T score, T largest) { return std::exp(score - largest); }

  // Returns the share of a value that the query does not see: NaN if it is not finite, as in torch,
  // where it is multiplied by a weight of 0; else -0, which changes no sum.
  static constexpr T nothing_of(T value) { return value * T{0} == 0 ? -T{0} : value * T{0}; }

  // Sums all dims of the value at once, so that memory is read row by row.
  constexpr void mix(int64_t item, int64_t seen, const T* weights, T sum,
                     const LaneCall& lane) const {
    const T* v = lane.in<T>(kValue) + a.kv_of(item) * a.keys * a.value_dim;
    T* out = lane.out<T>(0) + item * a.value_dim;
    for (int64_t i = 0; i < a.value_dim; ++i) out[i] = 0;
    for (int64_t j = 0; j < seen; ++j)
      for (int64_t i = 0; i < a.value_dim; ++i) out[i] += weights[j] * v[j * a.value_dim + i];
    for (int64_t j = seen; j < a.keys; ++j)
      for (int64_t i = 0; i < a.value_dim; ++i) out[i] += nothing_of(v[j * a.value_dim + i]);
    for (int64_t i = 0; i < a.value_dim && seen > 0; ++i) out[i] /= sum;
  }
  // Sums one dim of the value.
  constexpr void mix_one(int64_t item, int64_t i, int64_t seen, const T* weights, T sum,
                         const LaneCall& lane) const {
    const T* v = lane.in<T>(kValue) + a.kv_of(item) * a.keys * a.value_dim;
    T mixed = 0;
    for (int64_t j = 0; j < seen; ++j) mixed += weights[j] * v[j * a.value_dim + i];
    for (int64_t j = seen; j < a.keys; ++j) mixed += nothing_of(v[j * a.value_dim + i]);
    lane.out<T>(0)[item * a.value_dim + i] = seen > 0 ? mixed / sum : mixed;
  }

  constexpr void attend(int64_t item, int64_t seen, T* scores, const LaneCall& lane) const {
    const T *q = query(item, lane), *k = keys(item, lane);
    for (int64_t j = 0; j < seen; ++j) scores[j] = score(q, k + j * a.dim);
    const T largest = fold_run(MaxFold::identity<T>(), scores, seen, MaxFold());
    for (int64_t j = 0; j < a.keys; ++j) scores[j] = j < seen ? weight(scores[j], largest) : T{0};
    mix(item, seen, scores, fold_run(T{0}, scores, a.keys, Plus()), lane);
  }
};

}  // namespace shardproof
