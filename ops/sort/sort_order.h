// Elements of lines in order: plans of sort, topk, topk_segments and topk_merge, and the order
// itself.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// A dim inside [outer, size, inner]; the first `kept` elements in order are the result.
struct Ordering {
  int64_t outer = 1, size = 0, inner = 1, kept = 0;
  bool descending = false;
};

// Fills the result where a segment holds fewer elements than are kept; it sorts after every
// element.
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

// Sorts each segment of a line separately; its first `kept` follow those of the segment before.
// Input 1, if present, holds the indices of the elements; otherwise these count from the start of
// the dim. The outputs are the elements and their indices.
struct OrderPlan {
  Ordering order;
  std::vector<int64_t> starts_and_lengths;  // of the segments, in indices of the dim
  int64_t from = 0;                         // index in the dim of the input's first element
  bool has_indices = false;
  LastElement last;
  DType compute = DType::f32;

  int64_t segments() const { return static_cast<int64_t>(starts_and_lengths.size()) / 2; }
};

// True if a sorts before b by value. NaN is larger than every number.
template <typename T>
constexpr bool is_less(T a, T b) {
  return b != b ? a == a : a < b;
}

// True if a comes before b. Equal elements are ordered by their indices. No two elements are
// therefore equal, and every sorting algorithm gives the same result.
template <typename T>
constexpr bool is_sorted_before(T a, int64_t index_of_a, T b, int64_t index_of_b, bool descending) {
  if (is_less(a, b)) return !descending;
  if (is_less(b, a)) return descending;
  return index_of_a < index_of_b;
}

}  // namespace shardproof
