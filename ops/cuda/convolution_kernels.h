// Device kernels of convolutions, composed of the families of box copies and of contractions.
#pragma once

#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

// Registers the family. Requires that `kernels` has the families of box copies and of contractions.
void add_convolutions(DeviceKernels& kernels);

}  // namespace shardproof
