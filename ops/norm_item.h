// One row of layer_norm (centered: around the mean) or rms_norm.
#pragma once

#include <cmath>

#include "shardproof/ops/lane_kernel.h"

namespace shardproof {

template <typename T>
struct NormItem {
  static constexpr int kWeight = 1, kBias = 2;
  bool centered, has_bias;
  int64_t row;
  T eps;

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const T* x = lane.in<T>(0) + item * row;
    const T *weight = lane.in<T>(kWeight), *bias = has_bias ? lane.in<T>(kBias) : nullptr;
    T* y = lane.out<T>(0) + item * row;
    const auto count = static_cast<T>(row);
    T mean = 0, squares = 0;
    if (centered) {
      for (int64_t i = 0; i < row; ++i) mean += x[i];
      mean /= count;
    }
    for (int64_t i = 0; i < row; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const T scale = T(1) / std::sqrt(squares / count + eps);
    for (int64_t i = 0; i < row; ++i) {
      T value = (x[i] - mean) * scale;
      if (weight) value *= weight[i];
      if (bias) value += bias[i];
      y[i] = value;
    }
  }
};

}  // namespace shardproof
