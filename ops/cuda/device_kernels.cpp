// Implements ops/cuda/device_kernels.h: looks up a family by the type of the plan, and makes
// strided inputs dense for kernels that need it.
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
  if (nothing && !makers_.empty()) return idle_kernel();
  const auto found = makers_.find(host.plan.type());
  if (found == makers_.end() || any_complex(inputs) || any_complex(outputs)) return {};
  Kernel kernel = found->second(host.plan);
  if (!kernel.run || kernel.accepts_strides) return kernel;
  ElementwisePlan copy;
  copy.type = &typeid(CopyLoop);
  const auto copying = makers_.find(typeid(ElementwisePlan));
  if (copying == makers_.end()) return kernel;  // the caller makes inputs dense
  return with_dense_inputs(std::move(kernel), copying->second(copy));
}

}  // namespace shardproof
