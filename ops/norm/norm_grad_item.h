// Item of layer_norm_grad and rms_norm_grad: one row of the gradient by the input. When all rows
// are done, the columns of the gradient by the weight are summed in the order of the rows.
#pragma once

#include "shardproof/ops/norm/layer_norm_item.h"

namespace shardproof {

// Scratch holds the mean and the scale of each row.
template <typename T>
struct NormGradItem {
  static constexpr int kGradient = 0, kInput = 1, kWeight = 2;
  NormItem<T> norm;
  int64_t rows;

  // The gradient times the weight.
  struct Shares {
    const T *dy, *weight;
    constexpr T operator[](int64_t i) const { return weight ? dy[i] * weight[i] : dy[i]; }
  };
  struct Normals {
    const T* x;
    T mean, scale;
    constexpr T operator[](int64_t i) const { return (x[i] - mean) * scale; }
  };
  template <typename A, typename B>
  struct Products {
    A a;
    B b;
    constexpr T operator[](int64_t i) const { return a[i] * b[i]; }
  };

  constexpr const T* gradient(int64_t r, const LaneCall& lane) const {
    return lane.in<T>(kGradient) + r * norm.row;
  }
  constexpr const T* input(int64_t r, const LaneCall& lane) const {
    return lane.in<T>(kInput) + r * norm.row;
  }
  constexpr T* moments(int64_t r, const LaneCall& lane) const {
    return reinterpret_cast<T*>(lane.scratch) + 2 * r;
  }
  constexpr Shares shares(int64_t r, const LaneCall& lane) const {
    return {gradient(r, lane), lane.in<T>(kWeight)};
  }
  constexpr Normals normals(int64_t r, const LaneCall& lane) const {
    const T* found = moments(r, lane);
    return {input(r, lane), found[0], found[1]};
  }
  constexpr T over_row(T sum) const { return sum / static_cast<T>(norm.row); }

  // Stores the mean and the scale of row r.
  constexpr void measure(int64_t r, const LaneCall& lane) const {
    const T* x = input(r, lane);
    const T mean = norm.mean_of(norm.centered ? fold_run(T{0}, x, norm.row, Plus()) : T{0});
    T* to = moments(r, lane);
    to[0] = mean;
    to[1] = norm.scale_of(fold_run(T{0}, typename NormItem<T>::Squares{x, mean}, norm.row, Plus()));
  }
  // Writes number i of a row; `along` and `mean` are those of the shares, along the normals and of
  // all.
  static constexpr T moved(T share, T normal, T scale, T along, T mean) {
    return scale * ((share - normal * along) - mean);
  }

  constexpr void operator()(int64_t r, const LaneCall& lane) const {
    measure(r, lane);
    if (lane.inputs[kWeight])
      write(r, Products<const T*, const T*>{gradient(r, lane), lane.in<T>(kWeight)}, lane);
    else
      write(r, gradient(r, lane), lane);
  }
  // The result holds the normals until its last pass.
  template <typename S>
  constexpr void write(int64_t r, const S& share, const LaneCall& lane) const {
    const Normals normal = normals(r, lane);
    const T scale = normal.scale;
    T* __restrict to = lane.out<T>(0) + r * norm.row;
    for (int64_t i = 0; i < norm.row; ++i) to[i] = normal[i];
    const T mean = norm.centered ? over_row(fold_run(T{0}, share, norm.row, Plus())) : T{0};
    const T along = over_row(fold_run(T{0}, Products<S, const T*>{share, to}, norm.row, Plus()));
    for (int64_t i = 0; i < norm.row; ++i) to[i] = moved(share[i], to[i], scale, along, mean);
  }

  // Adds row r to the sums of all columns. Requires sums of 0 before the first row.
  constexpr void add_row(int64_t r, const LaneCall& lane) const {
    const T* __restrict dy = gradient(r, lane);
    const T* __restrict x = input(r, lane);
    const T mean = moments(r, lane)[0], scale = moments(r, lane)[1];
    T* __restrict weight = lane.out<T>(1);
    for (int64_t i = 0; i < norm.row; ++i) weight[i] += dy[i] * ((x[i] - mean) * scale);
  }
  // Sums one column, with the bits of add_row().
  constexpr void sum_column(int64_t i, const LaneCall& lane) const {
    T weight = 0;
    for (int64_t r = 0; r < rows; ++r) weight += gradient(r, lane)[i] * normals(r, lane)[i];
    lane.out<T>(1)[i] = weight;
  }
  constexpr void finish(const LaneCall& lane) const {
    for (int64_t i = 0; i < norm.row; ++i) sum_column(i, lane);
  }
};

}  // namespace shardproof
