// Result dtypes as in torch (torch.result_type). Tensors with dims decide. 0-d tensors, and after
// them numbers of the program (weak), raise the dtype only to a higher category (bool < integers <
// floats < complex). Example: x_bf16 * 2.5 is bf16, and x_i32 + 1.5 is f32, the default float.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

inline constexpr DType kDefaultFloat = DType::f32;

// Returns the result dtype of the inputs that are present. SP_CHECK: at least one is.
DType result_dtype(const OpCall& call);
// Returns result_dtype(), with integers and bool raised to the default float (exp, division).
DType float_result_dtype(const OpCall& call);
// Returns a number of the program as an integer dtype holds it: it wraps modulo 2^bits.
Number wrapped(const Number& number, DType dtype);
// Returns the shape of the inputs that are present, by NumPy's broadcasting. Throws
// Error(bad_input) if the shapes do not broadcast.
Dims broadcast_shape_of(std::string_view name, const OpCall& call);

// True if `to` holds every value of `from` (f16 -> f32, u8 -> i32, not i64 -> f64).
bool can_widen(DType from, DType to);

}  // namespace shardproof
