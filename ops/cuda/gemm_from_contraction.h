// A contraction as a matrix product of a library: where its letters are one range of rows, of
// columns, of terms and of products each, and strides are those of matrices.
#pragma once

#include <cstdint>
#include <optional>

#include "shardproof/localtensor/tensor/gemm.h"
#include "shardproof/ops/contraction/contraction.h"

namespace shardproof {

// Nothing: it is none, or no library has such dtypes. The views of `call` lie on a device. A
// product of 8-bit floats leaves its sums, without the bias and lying as the result does: the
// caller says where, and adds and rounds.
std::optional<GemmCall> plan_gemm(const ContractionPlan& plan, const KernelCall& call,
                                  int64_t lane);

}  // namespace shardproof
