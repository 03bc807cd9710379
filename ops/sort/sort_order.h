// Elements of lines in order: what sort, topk and the two halves of a topk over a cut dim do.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// A dim in the midst of [outer, size, inner]; the first `kept` in order are given.
struct Ordering {
  int64_t outer = 1, size = 0, inner = 1, kept = 0;
  bool descending = false;
};

// What is put where a segment holds fewer elements than are kept: it comes after every other.
inline constexpr int64_t kNoIndex = std::numeric_limits<int64_t>::max();
struct LastElement {
  double real = 0;
  int64_t whole = 0;

  template <typename T>
  constexpr T as() const {
    if constexpr (std::is_same_v<T, int64_t>)
      return whole;
    else
      return static_cast<T>(real);
  }
};

// Each segment of a line is put in order by itself: its first `kept` follow those of the segment
// before. Input 1, where there is one, holds the indices of the elements; else these count from the
// start of the dim. Outputs are the elements and their indices.
struct OrderPlan {
  Ordering order;
  std::vector<int64_t> starts_and_lengths;  // of the segments, in the dim
  int64_t from = 0;                         // index in the dim of the input's first element
  bool has_indices = false;
  LastElement last;
  DType compute = DType::f32;

  int64_t segments() const { return static_cast<int64_t>(starts_and_lengths.size()) / 2; }
};

// NaN counts as larger than all.
template <typename T>
constexpr bool is_less(T a, T b) {
  return b != b ? a == a : a < b;
}

// Equal elements stand in the order of their indices, so that no two places are alike and every way
// to sort gives the same.
template <typename T>
constexpr bool comes_before(T a, int64_t index_of_a, T b, int64_t index_of_b, bool descending) {
  if (is_less(a, b)) return !descending;
  if (is_less(b, a)) return descending;
  return index_of_a < index_of_b;
}

}  // namespace shardproof
