// cuBLASLt, the machine's library for matrix products.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/gemm.h"

namespace shardproof {

// Where its library may be, in the order of looking: by the system's own search, in the toolkit, in
// these folders.
std::vector<std::string> cublas_paths(const std::vector<std::string>& folders);
// The first of these that can be opened, for the device of this thread, when it is asked to open or
// to multiply; where there is none, it takes nothing. Null in a build that knows no cuBLASLt.
std::shared_ptr<Gemm> open_cublas(const std::vector<std::string>& paths, MatmulPrecision precision);

}  // namespace shardproof
