// Implements ops/core/type_promotion.h. Three categories of inputs (with dims, 0-d, numbers) are
// promoted separately, then combined from the lowest to the highest.
#include "shardproof/ops/core/type_promotion.h"

#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

using MaybeDType = std::optional<DType>;

bool is_real_float(DType dtype) { return is_floating(dtype); }

void raise(MaybeDType& to, DType dtype) { to = to ? promote(*to, dtype) : dtype; }

MaybeDType combined_dtype(MaybeDType higher, MaybeDType lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_real_float(*higher)) {
    if (!is_complex(*lower)) return higher;
    return *higher == DType::f64 ? DType::c128 : DType::c64;
  }
  if (*higher == DType::boolean || is_real_float(*lower) || is_complex(*lower))
    return promote(*higher, *lower);
  return higher;
}

DType number_dtype(DType dtype) {
  if (is_floating(dtype)) return kDefaultFloat;
  return is_complex(dtype) ? DType::c64 : dtype;
}

}  // namespace

DType result_dtype(const OpCall& call) {
  MaybeDType with_dims, without, numbers;
  for (const TensorMeta& meta : call.inputs) {
    if (meta.absent) continue;
    if (meta.weak) {
      raise(numbers, number_dtype(meta.dtype));
    } else {
      raise(meta.shape.empty() ? without : with_dims, meta.dtype);
    }
  }
  const MaybeDType result = combined_dtype(with_dims, combined_dtype(without, numbers));
  SP_CHECK(result.has_value(), "an op without inputs has no result dtype");
  return *result;
}

DType float_result_dtype(const OpCall& call) {
  const DType dtype = result_dtype(call);
  return is_floating(dtype) || is_complex(dtype) ? dtype : kDefaultFloat;
}

Number wrapped(const Number& number, DType dtype) {
  if (!number.is_integer() || !is_integral(dtype)) return number;
  std::byte stored[sizeof(int64_t)];
  store_i64(stored, dtype, number.integer());
  return Number(load_i64(stored, dtype));
}

Dims broadcast_shape_of(std::string_view name, const OpCall& call) {
  Dims shape;
  for (const TensorMeta& meta : call.inputs) {
    if (meta.absent) continue;
    try {
      shape = broadcast_shapes(shape, meta.shape);
    } catch (const Error& error) {
      refuse(name, call, "{}", error.message());
    }
  }
  return shape;
}

bool can_widen(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::boolean) return true;
  if (is_complex(from)) return to == DType::c128;
  const int needed = precision_bits(from);
  if (is_integral(from)) {
    if (is_integral(to) && is_signed(from) && !is_signed(to)) return false;
    // Only wide integers leave the range of fp8 and f16 before they exceed the precision.
    return precision_bits(to) >= needed && max_finite(to) >= max_finite(from);
  }
  if (is_integral(to) || to == DType::boolean) return false;
  return promote(from, component_dtype(to)) == component_dtype(to);
}

}  // namespace shardproof
