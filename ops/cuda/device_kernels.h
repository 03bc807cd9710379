// DeviceKernels: kernels for a device, made from the plans of host kernels. A family's plan states
// all that its kernels compute. An op that uses a family's kernels therefore has a device kernel
// whenever the family has one; no op is named here.
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <variant>

#include "shardproof/ops/core/kernel.h"
#include "shardproof/ops/core/sharding_rule.h"

namespace shardproof {

class DeviceKernels {
 public:
  // Makes a family's kernel for a plan; the kernel has no `run` if the family lacks it.
  template <typename Plan>
  using Maker = std::function<Kernel(const Plan&)>;

  template <typename Plan>
  void add(Maker<Plan> make) {
    std::get<Maker<Plan>>(makers_) = std::move(make);
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
  template <typename Plans>
  struct MakersOf;
  template <typename... Plans>
  struct MakersOf<OneOfPlans<Plans...>> {
    using Tuple = std::tuple<Maker<Plans>...>;
  };

  Kernel make(std::monostate) const { return {}; }
  template <typename Plan>
  Kernel make(const std::shared_ptr<const Plan>& plan) const {
    const Maker<Plan>& maker = std::get<Maker<Plan>>(makers_);
    return maker ? maker(*plan) : Kernel();
  }

  std::function<void()> load_;
  MakersOf<KernelPlan>::Tuple makers_;  // empty for families that run on the host only
};

// Returns the kernels for NVIDIA GPUs; none in a build without CUDA.
DeviceKernels cuda_kernels();

}  // namespace shardproof
