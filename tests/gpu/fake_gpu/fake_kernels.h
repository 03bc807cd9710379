// The device kernels for a FakeGpu, run as its queued work: the bodies of a GPU's kernels as loops
// (kernels.cpp), or the code that nvcc made of them (ptx/), by what a program links.
#pragma once

#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

DeviceKernels stand_in_kernels();

}  // namespace shardproof
