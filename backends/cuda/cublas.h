// Matrix products by cuBLASLt, which is opened at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/gemm.h"

namespace shardproof {

// Returns the paths at which to look for the library, in order: the system's search path, the CUDA
// toolkit, then `folders`. Empty in a build without the header of cuBLASLt.
std::vector<std::string> cublas_paths(const std::vector<std::string>& folders);
// Returns products by the first of `paths` that opens. It is opened on first use, for the current
// device of the calling thread; if none opens, every product is refused. Null in a build without
// the header of cuBLASLt.
std::shared_ptr<Gemm> open_cublas(const std::vector<std::string>& paths, MatmulPrecision precision);

}  // namespace shardproof
