// Implements cuda_kernels() of ops/cuda/device_kernels.h in a build without CUDA: there are none.
#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof {

DeviceKernels cuda_kernels() { return {}; }

}  // namespace shardproof
