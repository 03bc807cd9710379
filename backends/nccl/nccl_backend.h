// The nccl backend: ranks on GPUs, in processes that this program starts itself, one GPU each,
// several GPUs each, or several of them on one; they exchange contents over NCCL. Without a GPU, or
// without an NCCL that can be opened, it is not viable and says why.
#pragma once

#include <functional>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/cuda/cuda_api.h"
#include "shardproof/backends/nccl/nccl_api.h"

namespace shardproof {

struct NcclDependencies {
  CudaApi cuda;
  NcclSearchPaths places;
  std::function<NcclApi(const NcclSearchPaths&)> load = load_nccl;
};
std::shared_ptr<Backend> nccl_backend(const NcclDependencies& parts);

}  // namespace shardproof
