// Kernels that run one lane at a time and choose their compute dtypes. Inputs are converted before
// the body runs (once if all lanes share them), outputs after it. Tensors that have the chosen
// dtype already are used in place.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/ops/core/lane_item.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

struct LaneCall {
  int64_t lane = 0;
  const ShardInfo* shard = nullptr;          // null: the local tensors are the whole tensors
  const std::byte* const* inputs = nullptr;  // dense; null when absent
  std::byte* const* outputs = nullptr;
  std::byte* scratch = nullptr;
  // Set for items that run on a device: an item that finds bad data writes its number here. The
  // host then runs the body, which throws the Error.
  int64_t* error_flag = nullptr;

  template <typename T>
  constexpr const T* in(int i) const {
    return reinterpret_cast<const T*>(inputs[i]);
  }
  template <typename T>
  constexpr T* out(int i) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
  // Returns the global indices of a dim of an input that this lane owns. Requires `shard`.
  Runs owned_input(int input, int dim) const;
};

struct LanePlan {
  std::vector<DType> inputs,
      outputs;  // dtypes the body reads and writes; ignored for absent inputs
  int64_t scratch_bytes = 0;
  std::function<void(const LaneCall&)> body;
  // Set if the body consists of items that may run in any order: the function of one item, for
  // devices. An item with a `finish` gets a call of it when all items are done.
  LaneItem item = {};
  int64_t items = 0;
  // Returns the item of a lane that has a part of the whole. Empty: items run on whole tensors
  // only. An empty result: items cannot run this part.
  std::function<LaneItem(const LaneCall&)> item_of_part = {};
};

template <typename Item>
inline constexpr bool kFinishes = requires(const Item& item, const LaneCall& lane) {
  item.finish(lane);
};

// Sets body, item and items. Item is a struct with `void operator()(int64_t item, const LaneCall&)
// const` that does not use `shard`.
template <typename Item>
void set_items(LanePlan& plan, const Item& item, int64_t items) {
  plan.item = share_item(item);
  plan.items = items;
  plan.body = [item, items](const LaneCall& lane) {
    for (int64_t i = 0; i < items; ++i) item(i, lane);
    if constexpr (kFinishes<Item>) item.finish(lane);
  };
}

// Returns the only run of a dim that a lane owns, of length 0 if it owns nothing; nullopt if there
// are several runs.
std::optional<Run> single_run(const Runs& runs);
// Returns the position of a global index among the runs that a lane owns; -1 if another lane owns
// it.
int64_t local_index(const Runs& runs, int64_t index);

// Returns a kernel that runs `plan.body` for each lane; its workspace holds the converted copies.
// SP_CHECK: the plan has a dtype for each input and output, 16 of each at most.
Kernel lane_kernel(LanePlan plan, const OpCall& call, const std::vector<TensorMeta>& outputs);

// Returns use(v), where v is a value of the C++ type of a float compute dtype (f32 or f64).
template <typename Use>
auto with_float(DType compute, const Use& use) {
  return compute == DType::f64 ? use(double{}) : use(float{});
}

}  // namespace shardproof
