// A contraction as a matrix product of a library. It is possible if its letters form one range each
// of rows, columns, terms and products, with the strides of matrices.
#pragma once

#include <cstdint>
#include <optional>

#include "shardproof/localtensor/tensor/gemm.h"
#include "shardproof/ops/contraction/contraction.h"

namespace shardproof {

// Returns the product, or nullopt if the contraction is none or no library supports its dtypes. The
// views of `call` must be device memory. A product of 8-bit floats returns its sums, without the
// bias and in the layout of the result. The caller sets the address of the sums, adds the bias and
// rounds.
std::optional<GemmCall> plan_gemm(const ContractionPlan& plan, const KernelCall& call,
                                  int64_t lane);

}  // namespace shardproof
