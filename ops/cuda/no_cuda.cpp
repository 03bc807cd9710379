#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

DeviceKernels cuda_kernels() { return {}; }

}  // namespace shardproof
