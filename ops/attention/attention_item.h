// Items of attention and of its gradient, for devices: the arithmetic of one query and one key.
// ops/attention/attention_blocks.h does the same on the host for many queries at a time.
#pragma once

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/reduction/fold_functors.h"

namespace shardproof {

// Query heads that share a kv head are neighbours. A unit is a kv head of one batch, and its rows
// are the queries of all its heads. Rows of all units in order are the items.
struct Attention {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, dim = 0, value_dim = 0;
  int query_dim = 0;
  bool causal = false, has_lse = false;
  double scale = 1;
  // Global indices of the first local query and of the first local key.
  int64_t first_query = 0, first_key = 0;

  constexpr int64_t items() const { return batch * heads * queries; }
  constexpr int64_t units() const { return batch * kv_heads; }
  constexpr int64_t rows() const { return kv_heads > 0 ? heads / kv_heads * queries : 0; }
  // Returns the unit of an item.
  constexpr int64_t kv_of(int64_t item) const { return item / rows(); }
  // Returns the number of keys that the query with global index `place` attends to. It attends to
  // no later key, so these are the first ones.
  constexpr int64_t seen_from(int64_t place) const {
    const int64_t seen = place + 1 - first_key;
    return !causal || seen > keys ? keys : seen < 0 ? 0 : seen;
  }
  constexpr int64_t seen_by(int64_t item) const { return seen_from(first_query + item % queries); }
};

// Items are batch x heads x queries. The scores hold all keys; hidden keys have weight 0.
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
  static constexpr T dot(const T* x, const T* y, int64_t count) {
    T sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
    return sum;
  }
  constexpr T score(const T* q, const T* k) const {
    return dot(q, k, a.dim) * static_cast<T>(a.scale);
  }
  static constexpr T weight(T score, T largest) { return exp_of(score - largest); }
  // Returns the logarithm of the sum of a row's exponentials: torch's logsumexp.
  static constexpr T log_sum(T largest, T sum) { return log_of(sum) + largest; }

  // Sums one dim of the value. A weight of 0 times a value that is not finite is NaN, as in torch.
  constexpr void mix_one(int64_t item, int64_t i, int64_t seen, const T* weights, T sum,
                         const LaneCall& lane) const {
    const T* v = lane.in<T>(kValue) + a.kv_of(item) * a.keys * a.value_dim;
    T mixed = 0;
    for (int64_t j = 0; j < a.keys; ++j) mixed += weights[j] * v[j * a.value_dim + i];
    lane.out<T>(0)[item * a.value_dim + i] = seen > 0 ? mixed / sum : mixed;
  }
};

// Gradient of attention (Dao, FlashAttention-2, arXiv 2307.08691, algorithm 2). With weights P and
// scores S = scale q k^T of a row:
//
//   P = exp(S - lse), dP = dy v^T, D = sum(dy y) = sum(P dP), dS = P (dP - D + dlse)
//   dq = scale dS k, dk = scale dS^T q, dv = P^T dy
//
// Sums over the rows of a unit are made for kRowsAtOnce rows at a time, which are then added.
template <typename T>
struct AttentionGradItem {
  static constexpr int kGradient = 0, kQuery = 1, kKey = 2, kValue = 3, kResult = 4, kLogSum = 5;
  static constexpr int kLogSumGradient = 6;
  static constexpr int64_t kRowsAtOnce = 64;
  Attention a;

  struct Products {
    const T *x, *y;
    constexpr T operator[](int64_t i) const { return x[i] * y[i]; }
  };
  // Returns D from the row's sum of dy y.
  constexpr T by_result(int64_t item, const LaneCall& lane) const {
    const int64_t first = item * a.value_dim;
    return fold_run(T{0}, Products{lane.in<T>(kGradient) + first, lane.in<T>(kResult) + first},
                    a.value_dim, Plus());
  }
  // Returns the number that is added to the slopes dP of a row: dlse - D.
  constexpr T shift(int64_t item, T delta, const LaneCall& lane) const {
    return lane.inputs[kLogSumGradient] ? lane.in<T>(kLogSumGradient)[item] - delta : -delta;
  }
  // Returns scale dS.
  constexpr T moved(T weight, T slope, T shift) const {
    return weight * (slope + shift) * static_cast<T>(a.scale);
  }
};

}  // namespace shardproof
