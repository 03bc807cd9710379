// Folds: functors that combine two elements into one and have an identity. The
// maximum and the minimum with NaN are NaN.
#pragma once

#include <cstdint>
#include <limits>

#include "shardproof/ops/elementwise/binary_functors.h"
#include "shardproof/ops/reduction/fold_order.h"
#include "shardproof/ops/reduction/reduce_kernel.h"

namespace shardproof {

struct SumFold : functor::Add {
  template <typename T>
  static constexpr T identity() {
    return T{0};
  }
};
struct ProductFold : functor::Mul {
  template <typename T>
  static constexpr T identity() {
    return T{1};
  }
};
template <bool kLargest>
struct ExtremeFold {
  static constexpr unsigned kTypes = kReals;
  // The result is NaN if any element is.
  template <typename T>
  static constexpr T apply(T a, T b) {
    const bool beats = kLargest ? b > a : b < a;
    return beats || b != b ? b : a;
  }
  template <typename T>
  static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_same_v<T, int64_t>)
      return kLargest ? Limits::min() : Limits::max();
    else
      return kLargest ? -Limits::infinity() : Limits::infinity();
  }
};
using MaxFold = ExtremeFold<true>;
using MinFold = ExtremeFold<false>;
struct AnyFold {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <typename T>
  static constexpr T identity() {
    return 0;
  }
};
struct AllFold {
  template <typename T>
  static constexpr T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <typename T>
  static constexpr T identity() {
    return 1;
  }
};

// Returns the value that a fold starts from. The identity of an extreme depends on the result
// dtype, so the call has it: f8e4m3 has no infinity, bool no large numbers.
template <typename F, typename T>
constexpr T start_of(const ReduceNumbers& numbers) {
  if constexpr (!std::is_same_v<F, MaxFold> && !std::is_same_v<F, MinFold>)
    return F::template identity<T>();
  else if constexpr (std::is_same_v<T, int64_t>)
    return numbers.whole;
  else
    return static_cast<T>(numbers.real);
}

}  // namespace shardproof
