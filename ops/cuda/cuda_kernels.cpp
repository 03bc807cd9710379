#include "shardproof/ops/cuda/kernel_families.h"

namespace shardproof {

DeviceKernels cuda_kernels() { return all_families<CudaTarget>(); }

}  // namespace shardproof
