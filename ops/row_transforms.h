// Functions of a whole row, in place: softmax, its logarithm, running sums.
#pragma once

#include "shardproof/ops/float_math.h"
#include "shardproof/ops/fold.h"

namespace shardproof {

template <typename C>
constexpr C largest_of_row(const C* row, int64_t count) {
  return fold_run(MaxFold::identity<C>(), row, count, MaxFold());
}
template <typename C>
constexpr C sum_of_row(const C* row, int64_t count) {
  return fold_run(C{0}, row, count, Plus());
}

struct SoftmaxRow {
  template <typename C>
  static constexpr void run(C* row, int64_t count) {
    const C most = largest_of_row(row, count);
    for (int64_t i = 0; i < count; ++i) row[i] = exp_of(row[i] - most);
    const C sum = sum_of_row(row, count);
    for (int64_t i = 0; i < count; ++i) row[i] = row[i] / sum;
  }
};

// Exponentials are summed in pieces, since the row itself is still needed.
struct LogSoftmaxRow {
  template <typename C>
  static constexpr void run(C* row, int64_t count) {
    const C most = largest_of_row(row, count);
    C sum{0}, piece[512];
    for (int64_t start = 0; start < count; start += 512) {
      const int64_t part = count - start < 512 ? count - start : 512;
      for (int64_t i = 0; i < part; ++i) piece[i] = exp_of(row[start + i] - most);
      sum += sum_of_row(piece, part);
    }
    const C log_sum = log_of(sum);
    for (int64_t i = 0; i < count; ++i) row[i] = (row[i] - most) - log_sum;
  }
};

struct CumsumRow {
  template <typename C>
  static constexpr void run(C* row, int64_t count) {
    C sum{0};
    for (int64_t i = 0; i < count; ++i) row[i] = sum = functor::Add::apply(sum, row[i]);
  }
};

}  // namespace shardproof
