// Registries: what a run may use, as values that a caller may have added to.
#pragma once

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/cuda/device.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

struct Registries {
  OpRegistry ops;
  BackendRegistry backends;
  CudaApi cuda = {};  // how GPUs are reached
  DeviceKernels kernels = {};
};

}  // namespace shardproof
