// Implements ops/cuda/device_kernels.h: finds the maker of a plan's family, and makes strided
// inputs dense for kernels that need it.
#include "shardproof/ops/cuda/device_kernels.h"

#include <algorithm>

#include "shardproof/localtensor/tensor/scoped_device_memory.h"
#include "shardproof/ops/elementwise/elementwise_kernel.h"
#include "shardproof/ops/elementwise/select_loops.h"

namespace shardproof {
namespace {

bool any_complex(const std::vector<TensorMeta>& metas) {
  return std::any_of(metas.begin(), metas.end(),
                     [](const TensorMeta& meta) { return !meta.absent && is_complex(meta.dtype); });
}

bool is_empty(const TensorMeta& meta) { return element_count(meta.shape) == 0; }

// Returns a kernel that does nothing, for shards without elements.
Kernel idle_kernel() {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [](const KernelCall&) {};
  kernel.can_run_shards = [](const ShardInfo&) { return true; };
  return kernel;
}

bool is_dense(const LaneView& view) {
  int64_t expected = 1;
  for (int d = view.shape.size() - 1; d >= 0; --d) {
    if (view.shape[d] == 1) continue;
    if (view.strides[d] != expected) return element_count(view.shape) == 0;
    expected *= view.shape[d];
  }
  return true;
}

// Dense copies of strided inputs, kept for one call.
class DenseInputs {
 public:
  DenseInputs(const KernelCall& call, const Kernel& copy) : call_(call), inputs_(*call.inputs) {
    for (LaneView& view : inputs_)
      if (view.base != nullptr && !is_dense(view)) replace(view, copy);
  }
  DenseInputs(const DenseInputs&) = delete;
  KernelCall call() const {
    KernelCall dense = call_;
    dense.inputs = &inputs_;
    return dense;
  }

 private:
  void replace(LaneView& view, const Kernel& copy) {
    const bool shared = view.lane_stride == 0;
    const int64_t bytes = element_count(view.shape) * size_of(view.dtype);
    const int64_t lanes = shared ? 1 : call_.lanes;
    const std::vector<LaneView> from{view};
    view.base = taken_.emplace_back(*call_.memory, lanes * bytes).start();
    view.lane_stride = bytes;
    view.slots = nullptr;
    view.strides = contiguous_strides(view.shape);
    const std::vector<LaneView> to{view};
    KernelCall call = call_;
    call.lanes = lanes;
    call.inputs = &from;
    call.outputs = &to;
    copy.run(call);
    if (shared) view.lane_stride = 0;
  }

  const KernelCall& call_;
  std::vector<LaneView> inputs_;
  std::vector<ScopedDeviceMemory> taken_;
};

Kernel with_dense_inputs(Kernel kernel, const Kernel& copy) {
  kernel.accepts_strides = true;
  kernel.run = [inner = std::move(kernel.run), copy](const KernelCall& call) {
    const DenseInputs dense(call, copy);
    inner(dense.call());
  };
  return kernel;
}

}  // namespace

Kernel DeviceKernels::find(const Kernel& host, const std::vector<TensorMeta>& inputs,
                           const std::vector<TensorMeta>& outputs) const {
  const bool nothing = !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), is_empty);
  const auto& make_elementwise = std::get<Maker<ElementwisePlan>>(makers_);
  if (nothing && make_elementwise) return idle_kernel();
  if (any_complex(inputs) || any_complex(outputs)) return {};
  Kernel kernel = std::visit([this](const auto& plan) { return make(plan); }, host.plan);
  if (!kernel.run || kernel.accepts_strides || !make_elementwise) return kernel;
  ElementwisePlan copy;
  copy.type = &typeid(CopyLoop);
  return with_dense_inputs(std::move(kernel), make_elementwise(copy));
}

}  // namespace shardproof
