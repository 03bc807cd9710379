// Names of dtypes in safetensors files.
#pragma once

#include <optional>
#include <string_view>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// Requires a real dtype: a complex tensor is stored as its components.
std::string_view safetensors_name(DType dtype);
std::optional<DType> parse_safetensors_dtype(std::string_view name);

}  // namespace shardproof
