// Implements cublas.h in a build without the header of cuBLASLt: there are no products.
#include "shardproof/backends/cuda/cublas.h"

namespace shardproof {

std::vector<std::string> cublas_paths(const std::vector<std::string>&) { return {}; }

std::shared_ptr<Gemm> open_cublas(const std::vector<std::string>&, MatmulPrecision) {
  return nullptr;
}

}  // namespace shardproof
