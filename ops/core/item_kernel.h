// Kernels that see a lane's tensors whole, in dtypes of their own choice: inputs are converted
// before the body runs (once when all lanes share them), outputs after it. Tensors already of the
// dtype asked for are used in place.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/ops/core/op.h"

namespace shardproof {

struct LaneCall {
  int64_t lane = 0;
  const ShardInfo* shard = nullptr;          // null: the local tensors are the whole
  const std::byte* const* inputs = nullptr;  // dense; null when absent
  std::byte* const* outputs = nullptr;
  std::byte* scratch = nullptr;
  // Of items on another machine: where one that finds bad data says so; the host then runs the body
  // and tells what is wrong.
  int64_t* trouble = nullptr;

  template <typename T>
  constexpr const T* in(int i) const {
    return reinterpret_cast<const T*>(inputs[i]);
  }
  template <typename T>
  constexpr T* out(int i) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
  // The global indices of a dim of an input that this lane holds; needs `shard`.
  Runs owned_input(int input, int dim) const;
  Runs owned_output(int output, int dim) const;
};

struct LanePlan {
  std::vector<DType> inputs, outputs;  // what the body reads and writes; of absent inputs: anything
  int64_t scratch_bytes = 0;
  std::function<void(const LaneCall&)> body;
  // Of a body that is a number of items, in any order: the function of one, for other machines. It
  // may have a `finish`, that runs when all are done.
  std::any item = {};
  int64_t items = 0;
  // The item of a lane that has a part of the whole; empty where items are for whole tensors only,
  // or cannot do this part.
  std::function<std::any(const LaneCall&)> item_of_part = {};
};

template <typename Item>
inline constexpr bool kFinishes = requires(const Item& item, const LaneCall& lane) {
  item.finish(lane);
};

// Item is a struct with `void operator()(int64_t item, const LaneCall&) const` that does not use
// shard.
template <typename Item>
void set_items(LanePlan& plan, const Item& item, int64_t items) {
  plan.item = item;
  plan.items = items;
  plan.body = [item, items](const LaneCall& lane) {
    for (int64_t i = 0; i < items; ++i) item(i, lane);
    if constexpr (kFinishes<Item>) item.finish(lane);
  };
}

// The one run of a dim that a lane has, of no length when it has nothing; none: there are several.
std::optional<Run> single_run(const Runs& runs);
// Position of a global index among the runs a lane owns; -1: another lane's.
int64_t local_index(const Runs& runs, int64_t index);

Kernel lane_kernel(LanePlan plan, const OpCall& call, const std::vector<TensorMeta>& outputs);

// Runs `use` with a value of the C++ type of a float compute dtype (f32 or f64).
template <typename Use>
auto with_float(DType compute, const Use& use) {
  return compute == DType::f64 ? use(double{}) : use(float{});
}

}  // namespace shardproof
