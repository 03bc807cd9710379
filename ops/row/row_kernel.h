// Kernels that transform each row along one dim separately: softmax, log_softmax, cumsum. A row is
// converted to the compute type, transformed in place, and rounded once.
#pragma once

#include <typeinfo>

#include "shardproof/ops/core/op.h"

namespace shardproof {

using RowTransform = void (*)(std::byte* row, int64_t count);

struct RowPlan {
  int64_t outer = 1, count = 1, inner = 1;
  DType compute = DType::f32;
  RowTransform transform = nullptr;
  const std::type_info* type = nullptr;  // identifies the transform to device kernels
};
// Returns a kernel that applies `transform` to each row of `dim`. Rows have the compute dtype then;
// `type` is the transform's struct.
Kernel row_kernel(const Dims& shape, int dim, DType compute, RowTransform transform,
                  const std::type_info& type);

// Applies the transform to a row of compute type C.
template <typename Transform, typename C>
void run_row(std::byte* row, int64_t count) {
  Transform::run(reinterpret_cast<C*>(row), count);
}

}  // namespace shardproof
