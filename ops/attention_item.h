// Attention of one query, for machines where every query has a thread of its own: scores are
// computed twice in place of being kept, to the bits of the host's kernel.
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/lane_kernel.h"

namespace shardproof {

struct Attention {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, dim = 0, value_dim = 0;
  int query_dim = 0;
  bool causal = false;
  double scale = 1;
};

template <typename T>
struct AttentionItem {
  static constexpr int kQuery = 0, kKey = 1, kValue = 2;
  Attention a;

  constexpr T score(const T* q, const T* k) const {
    T dot = 0;
    for (int64_t i = 0; i < a.dim; ++i) dot += q[i] * k[i];
    return dot * static_cast<T>(a.scale);
  }

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t s = item % a.queries, head = item / a.queries;
    const int64_t group = a.kv_heads > 0 ? a.heads / a.kv_heads : 1;
    const int64_t kv = head / a.heads * a.kv_heads + head % a.heads / group;
    const int64_t seen = a.causal && s + 1 < a.keys ? s + 1 : a.keys;
    const T* q = lane.in<T>(kQuery) + item * a.dim;
    const T* k = lane.in<T>(kKey) + kv * a.keys * a.dim;
    const T* v = lane.in<T>(kValue) + kv * a.keys * a.value_dim;
    T* out = lane.out<T>(0) + item * a.value_dim;
    T largest = -std::numeric_limits<T>::infinity(), sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const T found = score(q, k + j * a.dim);
      if (found != found || found > largest) largest = found;
    }
    for (int64_t i = 0; i < a.value_dim; ++i) out[i] = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const T weight = std::exp(score(q, k + j * a.dim) - largest);
      sum += weight;
      for (int64_t i = 0; i < a.value_dim; ++i) out[i] += weight * v[j * a.value_dim + i];
    }
    for (int64_t i = 0; i < a.value_dim && seen > 0; ++i) out[i] /= sum;
  }
};

}  // namespace shardproof
