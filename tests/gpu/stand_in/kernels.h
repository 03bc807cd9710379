// The device kernels for a StandIn: the same bodies as a GPU's, as loops of its queued work.
#pragma once

#include "shardproof/ops/device_kernels.h"

namespace shardproof {

DeviceKernels stand_in_kernels();

}  // namespace shardproof
