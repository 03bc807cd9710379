// The nccl backend: ranks on GPUs that exchange contents over NCCL. This program starts the
// processes: with one GPU each, several GPUs each, or several processes on one GPU. Without a GPU
// or without a usable NCCL, not_viable() returns the reason.
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
