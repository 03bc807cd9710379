// Device kernels of convolutions, made of those that move and those that contract.
#pragma once

#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

// `kernels` has the families of moves and of contractions already.
void add_convolutions(DeviceKernels& kernels);

}  // namespace shardproof
