// Device kernels for a fake GPU, run as its queued work. A program links their bodies as loops
// (fake_kernels.cpp), or the PTX that nvcc made of them (ptx/).
#pragma once

#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

DeviceKernels fake_kernels();

}  // namespace shardproof
