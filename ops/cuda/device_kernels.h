// DeviceKernels: kernels for a device, made from the plans of host kernels. A family's plan states
// all that its kernels compute. An op that uses a family's kernels therefore has a device kernel
// whenever the family has one; no op is named here.
#pragma once

#include <map>
#include <typeindex>

#include "shardproof/ops/core/kernel.h"
#include "shardproof/ops/core/sharding_rule.h"

namespace shardproof {

class DeviceKernels {
 public:
  // Registers a family. `make` returns its kernel for a plan, without `run` if it has none.
  template <typename Plan>
  void add(std::function<Kernel(const Plan&)> make) {
    makers_[typeid(Plan)] = [make = std::move(make)](const std::any& plan) {
      return make(std::any_cast<const Plan&>(plan));
    };
  }
  // Returns the device kernel for a host kernel. Without `run` there is none, and the op runs on
  // the host; this holds for all complex tensors. Strided inputs are made dense on the device if
  // the kernel needs it.
  Kernel find(const Kernel& host, const std::vector<TensorMeta>& inputs,
              const std::vector<TensorMeta>& outputs) const;

  // Loads all kernels onto the device that this thread has selected. Otherwise CUDA loads each at
  // its first launch (lazy loading) and may wait until the device is idle. A call that waits for
  // other ranks' work could then deadlock. Throws Error(unsupported) if the device cannot load
  // them.
  void load() const {
    if (load_) load_();
  }
  void load_by(std::function<void()> load) { load_ = std::move(load); }

 private:
  std::function<void()> load_;
  std::map<std::type_index, std::function<Kernel(const std::any&)>> makers_;
};

// Returns the kernels for NVIDIA GPUs; none in a build without CUDA.
DeviceKernels cuda_kernels();

}  // namespace shardproof
