// Implements cuda_api.h in a build without CUDA: the table is empty and states the reason.
#include "shardproof/backends/cuda/cuda_api.h"

namespace shardproof {

CudaApi runtime_cuda_api(const std::vector<std::string>&) {
  CudaApi api;
  api.absent = "this build has no CUDA";
  return api;
}

}  // namespace shardproof
