// Kernels that transform each row along one dim by itself: softmax, log_softmax, cumsum. The row is
// converted to the compute type, transformed in place and rounded once.
#pragma once

#include "shardproof/ops/op.h"

namespace shardproof {

using RowTransform = void (*)(std::byte* row, int64_t count);
Kernel row_kernel(const Dims& shape, int dim, DType compute, RowTransform transform);

}  // namespace shardproof
