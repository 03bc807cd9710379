// Folds: functors that combine two elements into one and know their identity, and the order in
// which a run of elements is folded. NaN wins in maximum and minimum.
#pragma once

#include <cstdint>
#include <limits>

#include "shardproof/ops/binary_functors.h"
#include "shardproof/ops/fold_run.h"
#include "shardproof/ops/reduce.h"

namespace shardproof {

struct SumFold : functor::Add {
  template <typename T>
  static T identity() {
    return T{0};
  }
  template <typename T>
  static T start(const ReduceNumbers&) {
    return T{0};
  }
};
struct ProductFold : functor::Mul {
  template <typename T>
  static T identity() {
    return T{1};
  }
  template <typename T>
  static T start(const ReduceNumbers&) {
    return T{1};
  }
};
// The identity of the result's dtype comes with the call: f8e4m3 has no infinity, bool no large
// numbers.
template <typename T>
T given_identity(const ReduceNumbers& numbers) {
  if constexpr (std::is_same_v<T, int64_t>)
    return numbers.whole;
  else
    return static_cast<T>(numbers.real);
}
struct MaxFold {
  static constexpr unsigned kTypes = kReals;
  // Once NaN, always NaN: no x is larger than NaN, and NaN replaces everything.
  template <typename T>
  static T apply(T a, T b) {
    return b > a || b != b ? b : a;
  }
  template <typename T>
  static T identity() {
    if constexpr (std::is_same_v<T, int64_t>)
      return std::numeric_limits<T>::min();
    else
      return -std::numeric_limits<T>::infinity();
  }
  template <typename T>
  static T start(const ReduceNumbers& numbers) {
    return given_identity<T>(numbers);
  }
};
struct MinFold {
  static constexpr unsigned kTypes = kReals;
  template <typename T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
  template <typename T>
  static T identity() {
    if constexpr (std::is_same_v<T, int64_t>)
      return std::numeric_limits<T>::max();
    else
      return std::numeric_limits<T>::infinity();
  }
  template <typename T>
  static T start(const ReduceNumbers& numbers) {
    return given_identity<T>(numbers);
  }
};
struct AnyFold {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <typename T>
  static T identity() {
    return 0;
  }
  template <typename T>
  static T start(const ReduceNumbers&) {
    return 0;
  }
};
struct AllFold {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <typename T>
  static T identity() {
    return 1;
  }
  template <typename T>
  static T start(const ReduceNumbers&) {
    return 1;
  }
};

}  // namespace shardproof
