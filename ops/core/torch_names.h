// Names of PyTorch, NumPy and NCCL for ops, dtypes and arguments that have another name here. Names
// of ops and dtypes appear in hints only, because each has one name in a program. Arguments may be
// given by their torch names.
#pragma once

#include <string>
#include <string_view>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// Returns "; here it is clamp(x, min, max)", ready to append to "unknown op clip", or "".
std::string other_name_hint(std::string_view op);
// Returns a hint for a collective that has the name of a torch op ("gather", "scatter"), or "".
std::string namesake_hint(std::string_view verb);
// Returns the parameter of `op` that torch calls `key`; returns `key` if it has no other name.
std::string_view argument_name(std::string_view op, std::string_view key);
// Returns the dtype of a name. Throws Error(bad_input) that names the dtype meant by "float32" or
// "fp32".
DType parse_dtype_name(std::string_view name);

}  // namespace shardproof
