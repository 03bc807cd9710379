// Names of PyTorch and NumPy for arguments that have another name here. A program may use both.
#pragma once

#include <string_view>

namespace shardproof {

// Returns the parameter of `op` that torch calls `key`; returns `key` if it has no other name.
std::string_view argument_name(std::string_view op, std::string_view key);

}  // namespace shardproof
