// Words of PyTorch, NumPy and NCCL for what has another name here: only for messages, since each
// thing has one way to be written.
#pragma once

#include <string>
#include <string_view>

#include "shardproof/localtensor/dtype.h"

namespace shardproof {

// "; here it is clamp(x, min, max)" ready to append to "unknown op clip", or "". An op that takes a
// tensor where ours takes numbers is asked for as "max(.., dim=tensor)".
std::string other_name_hint(std::string_view op);
// Of a collective that has the name of an op of torch.
std::string namesake_hint(std::string_view verb);
// The dtype of a name; Error(bad_input) with what is meant by "float32" or "fp32".
DType dtype_named(std::string_view name);

}  // namespace shardproof
