// torch's result dtypes. Tensors with dims decide; 0-d tensors, and after them numbers of the
// program (weak), raise the dtype only to a higher category (bool < integers < floats < complex).
// So x_bf16 * 2.5 is bf16 and x_i32 + 1.5 is f32, the default float.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

inline constexpr DType kDefaultFloat = DType::f32;

// Over inputs that are present.
DType result_dtype(const OpCall& call);
// The same with integers and bool raised to the default float (exp, division).
DType float_result_dtype(const OpCall& call);
// Of inputs that are present, by NumPy's broadcasting.
Dims broadcast_result(std::string_view name, const OpCall& call);

// What the parts of a complex number are; other dtypes are their own.
DType real_part(DType dtype);
// `to` holds every value of `from` (f16 -> f32, u8 -> i32, not i64 -> f64).
bool widens(DType from, DType to);

}  // namespace shardproof
