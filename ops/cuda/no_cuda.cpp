#include "shardproof/ops/device_kernels.h"

namespace shardproof {

DeviceKernels cuda_kernels() { return {}; }

}  // namespace shardproof
