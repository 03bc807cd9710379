// Items of losses: one row each, then their sum or mean in the order of the rows.
#pragma once

#include <cmath>

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/loss/loss.h"
#include "shardproof/ops/reduction/fold_functors.h"

namespace shardproof {

// Logits as [outer, classes, inner]. With a reduction, scratch holds each row's loss and its weight
// in the mean.
template <typename T>
struct LossItem {
  static constexpr bool kChecks = true;
  LossKind kind;
  LossShape loss;

  struct Row {
    const T* x;
    int64_t step;
    constexpr T operator[](int64_t i) const { return x[i * step]; }
  };
  struct Exponentials {
    Row row;
    T most;
    constexpr T operator[](int64_t i) const { return std::exp(row[i] - most); }
  };

  constexpr int64_t rows() const { return loss.outer * loss.inner; }
  constexpr Row row_of(int64_t r, const LaneCall& lane) const {
    return {lane.in<T>(0) + r / loss.inner * loss.classes * loss.inner + r % loss.inner,
            loss.inner};
  }
  constexpr bool counts(int64_t r, const LaneCall& lane) const {
    return lane.in<int64_t>(kLossLabels)[r] != loss.ignore;
  }

  constexpr void operator()(int64_t r, const LaneCall& lane) const {
    const Row row = row_of(r, lane);
    T whole = 0, total = 0;
    if (kind == LossKind::cross_entropy && counts(r, lane)) {
      const T most = fold_run(MaxFold::identity<T>(), row, loss.classes, MaxFold());
      whole = std::log(fold_run(T{0}, Exponentials{row, most}, loss.classes, Plus())) + most;
    }
    if (loss.smoothing != 0) total = fold_run(T{0}, row, loss.classes, Plus());
    finish_row(r, whole, total, lane);
  }

  // Stores the loss of row r. `whole` is log(sum(exp(x))) of the row, or 0 if it holds
  // log-probabilities; `total` is the row's sum, used if labels are smoothed.
  constexpr void finish_row(int64_t r, T whole, T total, const LaneCall& lane) const {
    const int64_t label = lane.in<int64_t>(kLossLabels)[r];
    if (counts(r, lane) && (label < 0 || label >= loss.classes)) {
      *lane.error_flag = 1;
      return;
    }
    T value = 0, share = 0;
    if (counts(r, lane)) {
      share = loss.weighted ? lane.in<T>(kLossWeight)[label] : T(1);
      value = smoothed(whole - row_of(r, lane)[label], whole, total);
      if (loss.weighted) value *= share;
    }
    if (loss.reduction == LossReduction::none) {
      lane.out<T>(0)[r] = value;
      return;
    }
    T* seen = reinterpret_cast<T*>(lane.scratch);
    seen[2 * r] = value;
    seen[2 * r + 1] = share;
  }
  constexpr T smoothed(T value, T whole, T total) const {
    if (loss.smoothing == 0) return value;
    const T smoothing = static_cast<T>(loss.smoothing);
    return (1 - smoothing) * value + smoothing * (whole - total / static_cast<T>(loss.classes));
  }

  constexpr void finish(const LaneCall& lane) const {
    if (loss.reduction == LossReduction::none) return;
    const T* seen = reinterpret_cast<const T*>(lane.scratch);
    T sum = 0, count = 0;
    for (int64_t r = 0; r < rows(); ++r) {
      sum += seen[2 * r];
      count += seen[2 * r + 1];
    }
    *lane.out<T>(0) = loss.reduction == LossReduction::sum ? sum : sum / count;
  }
};

// Item of mse_loss: (x - y)^2 of one element. With a reduction, scratch holds the squares.
template <typename T>
struct SquareItem {
  LossReduction reduction;
  int64_t count;
  T over;  // divisor of a mean

  constexpr void operator()(int64_t i, const LaneCall& lane) const {
    const T apart = lane.in<T>(0)[i] - lane.in<T>(1)[i];
    T* to = reduction == LossReduction::none ? lane.out<T>(0) : reinterpret_cast<T*>(lane.scratch);
    to[i] = apart * apart;
  }
  constexpr void finish(const LaneCall& lane) const {
    if (reduction == LossReduction::none) return;
    *lane.out<T>(0) =
        of_sum(fold_run(T{0}, reinterpret_cast<const T*>(lane.scratch), count, Plus()));
  }
  constexpr T of_sum(T sum) const { return reduction == LossReduction::sum ? sum : sum / over; }
};

}  // namespace shardproof
