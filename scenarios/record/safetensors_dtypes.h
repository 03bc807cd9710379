// Dtypes as safetensors names them.
#pragma once

#include <optional>
#include <string_view>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// What stands in the file for a dtype: itself, or of a complex type that of its parts.
inline DType stored_as(DType dtype) {
  if (dtype == DType::c64) return DType::f32;
  return dtype == DType::c128 ? DType::f64 : dtype;
}
std::string_view safetensors_name(DType dtype);  // not of complex types
std::optional<DType> parse_safetensors_dtype(std::string_view name);

}  // namespace shardproof
