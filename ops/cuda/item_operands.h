// Operands of items on a device, and launches with one thread per item.
#pragma once

#include <array>

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/cuda/launch.h"

namespace shardproof {

// Memory that the items of a call read and write.
struct Operands {
  static constexpr size_t kMost = 7;
  std::array<const std::byte*, kMost> inputs;
  std::array<std::byte*, kMost> outputs;
  std::byte* scratch;
  int64_t* error_flag;

  constexpr LaneCall lane() const {
    LaneCall lane;
    lane.inputs = inputs.data();
    lane.outputs = outputs.data();
    lane.scratch = scratch;
    lane.error_flag = error_flag;
    return lane;
  }
};

template <typename Item>
struct ItemBody {
  Item item;
  Operands operands;
  constexpr void operator()(int64_t index) const { item(index, operands.lane()); }
};

template <typename Item>
void launch_items(const KernelCall& call, const Item& item, int64_t items,
                  const Operands& operands) {
  launch(call.stream, items, ItemBody<Item>{item, operands});
}

// Runs an item's `finish`, when all items are done.
template <typename Item>
struct FinishBody {
  Item item;
  Operands operands;
  constexpr void operator()(int64_t) const { item.finish(operands.lane()); }
};

template <typename Item>
void launch_finish(const KernelCall& call, const Item& item, const Operands& operands) {
  launch(call.stream, 1, FinishBody<Item>{item, operands});
}

}  // namespace shardproof
