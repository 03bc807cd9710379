// Item of rope: one pair of elements. It computes its own angle, for devices on which every pair
// has a thread.
#pragma once

#include <cmath>

#include "shardproof/ops/core/item_kernel.h"

namespace shardproof {

template <typename T>
struct RopeItem {
  int64_t seq, half, offset;  // a row has 2 * half elements
  double base;
  bool inverse = false;

  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    const int64_t row = item / half, i = item % half, s = row % seq;
    const int64_t position = lane.inputs[1] != nullptr ? lane.in<int64_t>(1)[s] : s + offset;
    const T* x = lane.in<T>(0) + row * 2 * half;
    T* y = lane.out<T>(0) + row * 2 * half;
    const double power = -2.0 * static_cast<double>(i) / static_cast<double>(2 * half);
    const double angle = static_cast<double>(position) * std::pow(base, power);
    const T cosine = static_cast<T>(std::cos(angle));
    const T sine = static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
    const T first = x[i], second = x[i + half];
    y[i] = first * cosine - second * sine;
    y[i + half] = second * cosine + first * sine;
  }
};

}  // namespace shardproof
