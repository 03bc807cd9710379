// Device kernels of independent items: one thread per item, or many threads for a long one. Tensors
// of other dtypes than the item's are converted before and after, in memory allocated for the call.
#include <array>

#include "shardproof/ops/attention/rope_item.h"
#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/attention_grad_kernels.h"
#include "shardproof/ops/cuda/attention_kernels.h"
#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/cuda/layer_norm_kernels.h"
#include "shardproof/ops/cuda/loss_grad_kernels.h"
#include "shardproof/ops/cuda/loss_kernels.h"
#include "shardproof/ops/cuda/norm_grad_kernels.h"
#include "shardproof/ops/index/index_items.h"
#include "shardproof/ops/index/scatter_item.h"
#include "shardproof/ops/random/random_items.h"
#include "shardproof/ops/row/cumulative_item.h"

namespace shardproof {
namespace {

struct ConvertBody {
  const std::byte* from;
  std::byte* to;
  DType source, target;
  int64_t source_bytes, target_bytes;
  constexpr void operator()(int64_t i) const {
    with_compute(source, [&](auto compute) {
      store_as(to + i * target_bytes, target,
               load_as<decltype(compute)>(from + i * source_bytes, source));
    });
  }
};

template <typename Item>
inline constexpr bool kChecks = requires {
  Item::kChecks;
};

struct ClearBody {
  int64_t* flag;
  constexpr void operator()(int64_t) const { *flag = 0; }
};

// A tensor of the call in the dtype that the item uses.
struct Converted {
  const LaneView* view = nullptr;
  DType used = DType::f32;
  ScopedDeviceMemory room = {};  // empty: the tensor is used in place
  int64_t elements() const { return element_count(view->shape); }
  int64_t bytes() const { return elements() * size_of(used); }
  std::byte* at(int64_t lane) const {
    return room.start() != nullptr ? room.start() : view->at(lane);
  }
};

class ItemRun {
 public:
  ItemRun(const KernelCall& call, const LanePlan& plan) : call_(call), plan_(plan) {
    for (size_t i = 0; i < call.inputs->size(); ++i)
      inputs_.push_back(take((*call.inputs)[i], plan.inputs[i]));
    for (size_t i = 0; i < call.outputs->size(); ++i)
      outputs_.push_back(take((*call.outputs)[i], plan.outputs[i]));
  }
  ItemRun(const ItemRun&) = delete;

  template <typename Item>
  void run(int64_t items) const {
    for (int64_t lane = 0; lane < call_.lanes; ++lane) {
      const std::shared_ptr<const Item> shared = item_of<Item>(lane);
      const Item& item = *shared;
      Operands operands{{}, {}, call_.workspace, nullptr};
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const Converted& in = inputs_[i];
        if (in.view->base == nullptr) continue;
        if (in.room.start() != nullptr && (lane == 0 || in.view->lane_stride != 0))
          convert_all(in, in.view->at(lane), in.view->dtype, in.room.start(), in.used);
        operands.inputs[i] = in.at(lane);
      }
      for (size_t i = 0; i < outputs_.size(); ++i) operands.outputs[i] = outputs_[i].at(lane);
      if constexpr (kChecks<Item>)
        run_checked(item, items, operands, lane);
      else if (items > 0)
        launch_items(call_, item, items, operands);
      if constexpr (kFinishes<Item>) launch_finish(call_, item, operands);
      for (const Converted& out : outputs_)
        if (out.room.start() != nullptr)
          convert_all(out, out.room.start(), out.used, out.view->at(lane), out.view->dtype);
    }
  }

 private:
  template <typename Item>
  std::shared_ptr<const Item> item_of(int64_t lane) const {
    using Shared = std::shared_ptr<const Item>;
    if (call_.shard == nullptr) return std::get<Shared>(plan_.item);
    LaneCall part;
    part.lane = lane;
    part.shard = call_.shard;
    return std::get<Shared>(plan_.item_of_part(part));
  }
  // Runs items that check their indices, and waits for the result. If one is bad, the host's body
  // throws the Error.
  template <typename Item>
  void run_checked(const Item& item, int64_t items, Operands operands, int64_t lane) const {
    if (items == 0) return;
    const DeviceScratch<int64_t> flag(call_, 1);
    operands.error_flag = flag.get();
    launch(call_.stream, 1, ClearBody{operands.error_flag});
    launch_items(call_, item, items, operands);
    int64_t error_flag = 0;
    call_.memory->to_host(reinterpret_cast<std::byte*>(&error_flag),
                          reinterpret_cast<const std::byte*>(flag.get()), sizeof(error_flag));
    if (error_flag != 0) throw_host_error(operands.inputs, lane);
  }
  void throw_host_error(const std::array<const std::byte*, Operands::kMost>& inputs,
                        int64_t lane) const {
    std::array<std::vector<std::byte>, Operands::kMost> contents;
    std::array<const std::byte*, Operands::kMost> on_host{};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs[i] == nullptr) continue;
      contents[i].resize(static_cast<size_t>(inputs_[i].bytes()) + 1);
      if (inputs_[i].bytes() > 0)
        call_.memory->to_host(contents[i].data(), inputs[i], inputs_[i].bytes());
      on_host[i] = contents[i].data();
    }
    std::vector<std::byte> result(static_cast<size_t>(outputs_.front().bytes()) + 1);
    std::array<std::byte*, 1> results{result.data()};
    LaneCall call;
    call.lane = lane;
    call.shard = call_.shard;
    call.inputs = on_host.data();
    call.outputs = results.data();
    throw_item_error(plan_, call);
  }
  Converted take(const LaneView& view, DType used) const {
    if (view.base == nullptr || view.dtype == used) return {&view, used};
    return {&view, used,
            ScopedDeviceMemory(*call_.memory, element_count(view.shape) * size_of(used))};
  }
  void convert_all(const Converted& tensor, const std::byte* from, DType source, std::byte* to,
                   DType target) const {
    launch(call_.stream, tensor.elements(),
           ConvertBody{from, to, source, target, size_of(source), size_of(target)});
  }

  const KernelCall& call_;
  const LanePlan& plan_;
  std::vector<Converted> inputs_, outputs_;
};

bool takes_parts(const LanePlan& plan, const ShardInfo& shard) {
  LaneCall part;
  part.shard = &shard;
  for (const int64_t lanes = static_cast<int64_t>(shard.ranks.size()); part.lane < lanes;
       ++part.lane)
    if (!runs_on_devices(plan.item_of_part(part))) return false;
  return true;
}

Kernel kernel_of(const LanePlan&, std::monostate) { return {}; }

template <typename Item>
Kernel kernel_of(const LanePlan& plan, const std::shared_ptr<const Item>&) {
  Kernel kernel;
  if constexpr (kFinishes<Item>) kernel.workspace_bytes = plan.scratch_bytes;
  kernel.run = [plan](const KernelCall& call) {
    ItemRun(call, plan).template run<Item>(plan.items);
  };
  if (plan.item_of_part)
    kernel.can_run_shards = [plan](const ShardInfo& shard) { return takes_parts(plan, shard); };
  return kernel;
}

}  // namespace

template <>
void KernelFamilies<Target>::add_items(DeviceKernels& kernels) {
  kernels.add<LanePlan>([](const LanePlan& plan) {
    return std::visit([&](const auto& item) { return kernel_of(plan, item); }, plan.item);
  });
}

}  // namespace shardproof
