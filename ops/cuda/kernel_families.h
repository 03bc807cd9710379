// The families of device kernels. Every source of this folder is compiled for two targets: by nvcc
// for CudaTarget, and by the host's compiler for HostTarget. Tests run HostTarget without a GPU.
// One program may contain both.
#pragma once

#include <functional>
#include <map>
#include <typeindex>

#include "shardproof/ops/cuda/convolution_kernels.h"
#include "shardproof/ops/cuda/device_kernels.h"
#include "shardproof/ops/cuda/launch.h"
#include "shardproof/ops/elementwise/elementwise_kernel.h"

namespace shardproof {

// Makers of elementwise kernels, by the type of the host's loop.
using ElementwiseTable = std::map<std::type_index, std::function<Kernel(const ElementwisePlan&)>>;

template <typename Target>
struct KernelFamilies {
  static void add_elementwise(ElementwiseTable& table);
  static void add_choices(ElementwiseTable& table);
  static void add_moves(DeviceKernels& kernels);
  static void add_reductions(DeviceKernels& kernels);
  static void add_rows(DeviceKernels& kernels);
  static void add_contractions(DeviceKernels& kernels);
  static void add_items(DeviceKernels& kernels);
  static void add_order(DeviceKernels& kernels);
};

template <typename Target>
DeviceKernels all_families() {
  using Families = KernelFamilies<Target>;
  DeviceKernels kernels;
  ElementwiseTable table;
  Families::add_elementwise(table);
  Families::add_choices(table);
  kernels.add<ElementwisePlan>([table = std::move(table)](const ElementwisePlan& plan) {
    const auto found = plan.type == nullptr ? table.end() : table.find(*plan.type);
    return found == table.end() ? Kernel() : found->second(plan);
  });
  Families::add_moves(kernels);
  Families::add_reductions(kernels);
  Families::add_rows(kernels);
  Families::add_contractions(kernels);
  Families::add_items(kernels);
  Families::add_order(kernels);
  add_convolutions(kernels);
  return kernels;
}

}  // namespace shardproof
