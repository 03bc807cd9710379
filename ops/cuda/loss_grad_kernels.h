// Device kernels of cross_entropy_grad over many classes: many threads share a row, in the host's
// order.
#pragma once

#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/item_operands.h"
#include "shardproof/ops/cuda/parallel_fold.h"
#include "shardproof/ops/loss/loss_grad_item.h"

namespace shardproof {

template <typename T>
struct LossGradLogits {
  CrossEntropyGradItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.row_of(line, operands.lane())[i];
  }
};
// The result holds the exponentials until the last launch.
template <typename T>
struct LossGradPowers {
  CrossEntropyGradItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.result_of(line, operands.lane())[i];
  }
};
template <typename T>
struct LossGradPowerBody {
  CrossEntropyGradItem<T> item;
  Operands operands;
  const T* most;
  constexpr void operator()(int64_t index) const {
    const LaneCall lane = operands.lane();
    const int64_t line = index / item.classes, c = index % item.classes;
    const T largest = item.largest_of(line, item.has_sum ? T{0} : most[line], lane);
    item.result_of(line, lane)[c] = exp_of(item.row_of(line, lane)[c] - largest);
  }
};
template <typename T>
struct LossGradBody {
  CrossEntropyGradItem<T> item;
  Operands operands;
  const T* sums;
  constexpr void operator()(int64_t index) const {
    const LaneCall lane = operands.lane();
    const int64_t line = index / item.classes, c = index % item.classes;
    T& to = item.result_of(line, lane)[c];
    to = item.slope(lane.in<T>(item.kGradient)[line], item.has_sum ? to : to / sums[line],
                    c == item.label_of(line, lane));
  }
};

template <typename T>
void launch_items(const KernelCall& call, const CrossEntropyGradItem<T>& item, int64_t items,
                  const Operands& operands) {
  const int64_t classes = item.classes;
  if (classes < kSharedLine)
    return launch(call.stream, items, ItemBody<CrossEntropyGradItem<T>>{item, operands});
  const FoldShape shape{items, 1, classes, classes};
  const DeviceScratch<T> most(call, items), sums(call, items), slots(call, shape.ways());
  if (!item.has_sum)
    fold_lines<MaxFold>(call.stream, shape, LossGradLogits<T>{item, operands}, slots.get(),
                        most.get());
  launch(call.stream, items * classes, LossGradPowerBody<T>{item, operands, most.get()});
  if (!item.has_sum)
    fold_lines<SumFold>(call.stream, shape, LossGradPowers<T>{item, operands}, slots.get(),
                        sums.get());
  launch(call.stream, items * classes, LossGradBody<T>{item, operands, sums.get()});
}

}  // namespace shardproof
