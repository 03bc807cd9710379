// DeviceKernels: kernels for a device, made from the plans of host kernels. A family's plan says
// all that its kernels do, so an op that is made of a family's kernels has a device kernel whenever
// the family has one; no op is named.
#pragma once

#include <map>
#include <typeindex>

#include "shardproof/ops/core/kernel.h"
#include "shardproof/ops/core/sharding_rule.h"

namespace shardproof {

class DeviceKernels {
 public:
  // `make` gives a Kernel, without `run` when it has none for this plan.
  template <typename Plan>
  void add(std::function<Kernel(const Plan&)> make) {
    makers_[typeid(Plan)] = [make = std::move(make)](const std::any& plan) {
      return make(std::any_cast<const Plan&>(plan));
    };
  }
  // Without `run`: there is none, the op runs on the host. So does all that is complex.
  Kernel find(const Kernel& host, const std::vector<TensorMeta>& inputs,
              const std::vector<TensorMeta>& outputs) const;

  // Loads all of them onto the device that this thread has selected. Else each is loaded when it is
  // first launched, and may wait until nothing else runs there (CUDA's lazy loading): not even a
  // call that waits for what other ranks do behind the kernel. Error: the device cannot take them.
  void load() const {
    if (load_) load_();
  }
  void load_by(std::function<void()> load) { load_ = std::move(load); }

 private:
  std::function<void()> load_;
  std::map<std::type_index, std::function<Kernel(const std::any&)>> makers_;
};

// For NVIDIA GPUs; none in a build without CUDA.
DeviceKernels cuda_kernels();

}  // namespace shardproof
