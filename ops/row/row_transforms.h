// Transforms of a whole row, in place: softmax, log_softmax, cumsum, logcumsumexp. Softmax
// subtracts the row's maximum first, so exp() stays in range.
#pragma once

#include <cmath>
#include <limits>

#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/reduction/fold_functors.h"

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

struct LogSoftmaxRow {
  template <typename C>
  struct Exponentials {
    const C* row;
    C most;
    constexpr C operator[](int64_t i) const { return exp_of(row[i] - most); }
  };
  template <typename C>
  static constexpr void run(C* row, int64_t count) {
    const C most = largest_of_row(row, count);
    const C log_sum = log_of(fold_run(C{0}, Exponentials<C>{row, most}, count, Plus()));
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

struct LogCumsumExpRow {
  template <typename C>
  static constexpr void run(C* row, int64_t count) {
    constexpr C kLeast = -std::numeric_limits<C>::infinity();
    C most = kLeast, sum{0};
    for (int64_t i = 0; i < count; ++i) {
      const C x = row[i];
      if (x > most) {
        sum = (sum > 0 ? sum * std::exp(most - x) : sum) + 1;
        most = x;
      } else if (!(std::isinf(x) && (x == most || x < 0))) {
        sum += std::exp(x - most);
      }
      row[i] = most == kLeast && sum == 0 ? kLeast : std::log(sum) + most;
    }
  }
};

}  // namespace shardproof
