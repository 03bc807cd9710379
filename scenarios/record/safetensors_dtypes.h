// Names of dtypes in safetensors files.
#pragma once

#include <optional>
#include <string_view>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// Returns the dtype in the file: the dtype itself, or that of the parts of a complex dtype.
inline DType stored_as(DType dtype) {
  if (dtype == DType::c64) return DType::f32;
  return dtype == DType::c128 ? DType::f64 : dtype;
}
std::string_view safetensors_name(DType dtype);  // requires a real dtype
std::optional<DType> parse_safetensors_dtype(std::string_view name);

}  // namespace shardproof
