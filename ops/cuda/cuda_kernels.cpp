// Implements cuda_kernels() of ops/cuda/device_kernels.h, and loads the kernels of a device
// eagerly.
#include <cuda_runtime_api.h>

#include <mutex>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/cuda/kernel_families.h"

namespace shardproof {

std::vector<const void*>& listed_kernels() {
  static std::vector<const void*> kernels;  // filled before main()
  return kernels;
}

namespace {

// Querying a kernel's attributes loads it.
void load_kernels() {
  static std::mutex mutex;
  static std::set<int> loaded;
  const std::lock_guard lock(mutex);
  int device = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess && !loaded.insert(device).second) return;
  for (const void* kernel : listed_kernels()) {
    cudaFuncAttributes attributes{};
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  }
  if (status == cudaSuccess) return;
  loaded.erase(device);
  throw Error(ErrorKind::unsupported, fmt::format("GPU {} cannot load the kernels: {}", device,
                                                  cudaGetErrorString(status)));
}

}  // namespace

DeviceKernels cuda_kernels() {
  DeviceKernels kernels = all_families<CudaTarget>();
  kernels.load_by(load_kernels);
  return kernels;
}

}  // namespace shardproof
