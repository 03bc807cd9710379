// Device kernels of losses over many classes, and of sums of many squares: many threads share a
// row, in the host's order.
#pragma once

#include <algorithm>

#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/item_operands.h"
#include "shardproof/ops/cuda/parallel_fold.h"
#include "shardproof/ops/loss/loss_item.h"

namespace shardproof {

template <typename T>
struct Logits {
  LossItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.row_of(line, operands.lane())[i];
  }
};
template <typename T>
struct Exponentials {
  LossItem<T> item;
  Operands operands;
  const T* most;
  constexpr T operator()(int64_t line, int64_t i) const {
    return typename LossItem<T>::Exponentials{item.row_of(line, operands.lane()), most[line]}[i];
  }
};
template <typename T>
struct LossBody {
  LossItem<T> item;
  Operands operands;
  const T *most, *sums, *totals;
  constexpr void operator()(int64_t r) const {
    const LaneCall lane = operands.lane();
    const bool whole = item.kind == LossKind::cross_entropy && item.counts(r, lane);
    item.finish_row(r, whole ? std::log(sums[r]) + most[r] : T{0},
                    item.loss.smoothing != 0 ? totals[r] : T{0}, lane);
  }
};

template <typename T>
void launch_items(const KernelCall& call, const LossItem<T>& item, int64_t items,
                  const Operands& operands) {
  if (item.loss.classes < kSharedLine)
    return launch(call.stream, items, ItemBody<LossItem<T>>{item, operands});
  const FoldShape shape{items, 1, item.loss.classes, item.loss.classes};
  const DeviceScratch<T> most(call, items), sums(call, items), totals(call, items);
  const DeviceScratch<T> slots(call, shape.ways());
  const Logits<T> logits{item, operands};
  if (item.kind == LossKind::cross_entropy) {
    fold_lines<MaxFold>(call.stream, shape, logits, slots.get(), most.get());
    fold_lines<SumFold>(call.stream, shape, Exponentials<T>{item, operands, most.get()},
                        slots.get(), sums.get());
  }
  if (item.loss.smoothing != 0)
    fold_lines<SumFold>(call.stream, shape, logits, slots.get(), totals.get());
  launch(call.stream, items, LossBody<T>{item, operands, most.get(), sums.get(), totals.get()});
}

template <typename T>
struct Squares {
  Operands operands;
  constexpr T operator()(int64_t, int64_t i) const {
    return reinterpret_cast<const T*>(operands.scratch)[i];
  }
};
template <typename T>
struct SquaresBody {
  SquareItem<T> item;
  Operands operands;
  const T* sum;
  constexpr void operator()(int64_t) const {
    *operands.lane().template out<T>(0) = item.of_sum(*sum);
  }
};

template <typename T>
void launch_finish(const KernelCall& call, const SquareItem<T>& item, const Operands& operands) {
  if (item.reduction == LossReduction::none) return;
  const FoldShape shape{1, 1, item.count, std::max<int64_t>(item.count, 1)};
  const DeviceScratch<T> sum(call, 1), slots(call, shape.ways());
  fold_lines<SumFold>(call.stream, shape, Squares<T>{operands}, slots.get(), sum.get());
  launch(call.stream, 1, SquaresBody<T>{item, operands, sum.get()});
}

}  // namespace shardproof
