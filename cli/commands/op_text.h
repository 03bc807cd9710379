// Text about ops that several commands print.
#pragma once

#include <string>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns the call with its defaults, and the operator that means the op: "matmul(input, other) @".
std::string signature(const OpRecord& op);

}  // namespace shardproof
