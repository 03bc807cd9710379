// Device kernels of layer_norm_grad and rms_norm_grad. Many threads share a long row, in the host's
// order. Each column of the gradient by the weight has a thread.
#pragma once

#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/item_operands.h"
#include "shardproof/ops/cuda/parallel_fold.h"
#include "shardproof/ops/norm/norm_grad_item.h"
#include "shardproof/ops/reduction/fold_functors.h"

namespace shardproof {

template <typename T>
struct NormGradInput {
  NormGradItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.input(line, operands.lane())[i];
  }
};
template <typename T>
struct NormGradMeanBody {
  NormGradItem<T> item;
  Operands operands;
  const T* sums;
  constexpr void operator()(int64_t line) const {
    item.moments(line, operands.lane())[0] = item.norm.mean_of(sums ? sums[line] : T{0});
  }
};
template <typename T>
struct NormGradSquare {
  NormGradItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    const LaneCall lane = operands.lane();
    return typename NormItem<T>::Squares{item.input(line, lane), item.moments(line, lane)[0]}[i];
  }
};
template <typename T>
struct NormGradScaleBody {
  NormGradItem<T> item;
  Operands operands;
  const T* squares;
  constexpr void operator()(int64_t line) const {
    item.moments(line, operands.lane())[1] = item.norm.scale_of(squares[line]);
  }
};
template <typename T>
struct NormGradShare {
  NormGradItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.shares(line, operands.lane())[i];
  }
};
template <typename T>
struct NormGradProduct {
  NormGradItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    const LaneCall lane = operands.lane();
    return item.shares(line, lane)[i] * item.normals(line, lane)[i];
  }
};
template <typename T>
struct NormGradWriteBody {
  NormGradItem<T> item;
  Operands operands;
  const T *sums, *products;
  constexpr void operator()(int64_t index) const {
    const LaneCall lane = operands.lane();
    const int64_t row = item.norm.row, line = index / row, i = index % row;
    const auto normal = item.normals(line, lane);
    lane.out<T>(0)[index] =
        item.moved(item.shares(line, lane)[i], normal[i], normal.scale,
                   item.over_row(products[line]), sums ? item.over_row(sums[line]) : T{0});
  }
};
template <typename T>
struct NormGradColumnBody {
  NormGradItem<T> item;
  Operands operands;
  constexpr void operator()(int64_t i) const { item.sum_column(i, operands.lane()); }
};

template <typename T>
void launch_items(const KernelCall& call, const NormGradItem<T>& item, int64_t items,
                  const Operands& operands) {
  const int64_t row = item.norm.row;
  if (row < kSharedLine)
    return launch(call.stream, items, ItemBody<NormGradItem<T>>{item, operands});
  const bool centered = item.norm.centered;
  const FoldShape shape{items, 1, row, row};
  const DeviceScratch<T> first(call, items), second(call, items), slots(call, shape.ways());
  T* const sums = centered ? first.get() : nullptr;
  if (centered)
    fold_lines<SumFold>(call.stream, shape, NormGradInput<T>{item, operands}, slots.get(), sums);
  launch(call.stream, items, NormGradMeanBody<T>{item, operands, sums});
  fold_lines<SumFold>(call.stream, shape, NormGradSquare<T>{item, operands}, slots.get(),
                      second.get());
  launch(call.stream, items, NormGradScaleBody<T>{item, operands, second.get()});
  if (centered)
    fold_lines<SumFold>(call.stream, shape, NormGradShare<T>{item, operands}, slots.get(), sums);
  fold_lines<SumFold>(call.stream, shape, NormGradProduct<T>{item, operands}, slots.get(),
                      second.get());
  launch(call.stream, items * row, NormGradWriteBody<T>{item, operands, sums, second.get()});
}

template <typename T>
void launch_finish(const KernelCall& call, const NormGradItem<T>& item, const Operands& operands) {
  launch(call.stream, item.norm.row, NormGradColumnBody<T>{item, operands});
}

}  // namespace shardproof
