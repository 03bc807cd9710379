// cuBLASLt, the machine's library for matrix products.
#pragma once

#include <memory>

#include "shardproof/localtensor/gemm.h"

namespace shardproof {

// Opened at the first product, for the device of this thread; where it is not found, it takes none.
// f32 is computed in f32 (no TF32). Null in a build that knows no cuBLASLt.
std::shared_ptr<Gemm> open_cublas();

}  // namespace shardproof
