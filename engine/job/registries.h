// Registries: the ops, backends and device kernels that a run may use. They are values, so a
// program that links shardproof can add its own.
#pragma once

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/cuda/device.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

struct Registries {
  OpRegistry ops;
  BackendRegistry backends;
  CudaApi cuda = {};  // functions of the CUDA driver; empty: no GPU
  DeviceKernels kernels = {};
};

}  // namespace shardproof
