#include "shardproof/backends/cuda/cuda_api.h"

namespace shardproof {

CudaApi runtime_cuda_api(const std::vector<std::string>&) {
  CudaApi api;
  api.absent = "this build has no CUDA";
  return api;
}

}  // namespace shardproof
