// Words of PyTorch, NumPy and NCCL for what has another name here. Ops are told only, since each
// thing has one way to be written; arguments may be given by the names that torch has for them.
#pragma once

#include <string>
#include <string_view>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// "; here it is clamp(x, min, max)" ready to append to "unknown op clip", or "".
std::string other_name_hint(std::string_view op);
// Of a collective that has the name of an op of torch.
std::string namesake_hint(std::string_view verb);
// The name here of an argument that torch calls `key`; `key` itself when it has no other.
std::string_view argument_named(std::string_view op, std::string_view key);
// The dtype of a name; Error(bad_input) with what is meant by "float32" or "fp32".
DType dtype_named(std::string_view name);

}  // namespace shardproof
