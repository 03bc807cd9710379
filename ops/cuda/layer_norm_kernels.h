// Device kernels of layer_norm and rms_norm over long rows: many threads share a row, in the host's
// order.
#pragma once

#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/item_operands.h"
#include "shardproof/ops/cuda/parallel_fold.h"
#include "shardproof/ops/norm/layer_norm_item.h"
#include "shardproof/ops/reduction/fold_functors.h"

namespace shardproof {

template <typename T>
struct NormElement {
  NormItem<T> item;
  Operands operands;
  constexpr T operator()(int64_t line, int64_t i) const {
    return item.in(line, operands.lane())[i];
  }
};
template <typename T>
struct NormSquare {
  NormItem<T> item;
  Operands operands;
  const T* sums;
  constexpr T operator()(int64_t line, int64_t i) const {
    const T mean = item.centered ? item.mean_of(sums[line]) : T{0};
    return typename NormItem<T>::Squares{item.in(line, operands.lane()), mean}[i];
  }
};
template <typename T>
struct NormWriteBody {
  NormItem<T> item;
  Operands operands;
  const T *sums, *squares;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / item.row;
    const T mean = item.centered ? item.mean_of(sums[line]) : T{0};
    item.write(line, index % item.row, mean, item.scale_of(squares[line]), operands.lane());
  }
};

template <typename T>
void launch_items(const KernelCall& call, const NormItem<T>& item, int64_t items,
                  const Operands& operands) {
  if (item.row < kSharedLine)
    return launch(call.stream, items, ItemBody<NormItem<T>>{item, operands});
  const FoldShape shape{items, 1, item.row, item.row};
  const DeviceScratch<T> sums(call, items), squares(call, items), slots(call, shape.ways());
  if (item.centered)
    fold_lines<SumFold>(call.stream, shape, NormElement<T>{item, operands}, slots.get(),
                        sums.get());
  fold_lines<SumFold>(call.stream, shape, NormSquare<T>{item, operands, sums.get()}, slots.get(),
                      squares.get());
  launch(call.stream, items * item.row,
         NormWriteBody<T>{item, operands, sums.get(), squares.get()});
}

}  // namespace shardproof
