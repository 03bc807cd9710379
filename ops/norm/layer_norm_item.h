// Item of layer_norm (centered: the mean is subtracted) and rms_norm: one row.
#pragma once

#include <cmath>

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/reduction/fold_order.h"

namespace shardproof {

template <typename T>
struct NormItem {
  static constexpr int kWeight = 1, kBias = 2;
  bool centered, has_bias;
  int64_t row;
  T eps;

  struct Squares {
    const T* x;
    T mean;
    constexpr T operator[](int64_t i) const { return (x[i] - mean) * (x[i] - mean); }
  };

  constexpr const T* in(int64_t item, const LaneCall& lane) const {
    return lane.in<T>(0) + item * row;
  }
  constexpr T mean_of(T sum) const { return centered ? sum / static_cast<T>(row) : T{0}; }
  constexpr T scale_of(T squares) const {
    return T(1) / std::sqrt(squares / static_cast<T>(row) + eps);
  }
  constexpr void write(int64_t item, int64_t i, T mean, T scale, const LaneCall& lane) const {
    const T *weight = lane.in<T>(kWeight), *bias = has_bias ? lane.in<T>(kBias) : nullptr;
    T value = (in(item, lane)[i] - mean) * scale;
    if (weight) value *= weight[i];
    if (bias) value += bias[i];
    lane.out<T>(0)[item * row + i] = value;
  }

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const T* x = in(item, lane);
    const T mean = mean_of(centered ? fold_run(T{0}, x, row, Plus()) : T{0});
    const T scale = scale_of(fold_run(T{0}, Squares{x, mean}, row, Plus()));
    for (int64_t i = 0; i < row; ++i) write(item, i, mean, scale, lane);
  }
};

}  // namespace shardproof
