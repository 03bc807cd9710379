// Ops that follow how far honest computations of a program may lie apart where nobody knows the
// truth: beside each value goes a tensor of f64 of its shape, the errors of its elements (bound.h).
#pragma once

#include "shardproof/localtensor/matmul_precision.h"
#include "shardproof/ops/op.h"

namespace shardproof {

// Of `op`, called with so many inputs and outputs: takes its inputs, their errors and its outputs,
// and gives the errors of the outputs. An absent input has an absent error.
OpRecord error_of_op(const OpRecord& op, size_t inputs, size_t outputs, MatmulPrecision matmul);

// error_of_nothing(x): that of what all computations have alike.
// unknown_error(x): infinity.
// error_of_terms(x, error, op=): what a reduction of x over ranks has to add up, or to
// multiply, for its error: sizes with errors, errors (of a product: sizes without), and the
// exponents of the last bits, of which the least counts (of a product: their sum).
// error_of_reduction(sizes, errors, bits, op=, ranks=, dtype=): what came of these over the ranks
// to the error of the result, in any order of addition, rounding to `dtype` at each hop.
void add_error_ops(OpRegistry& ops);

}  // namespace shardproof
