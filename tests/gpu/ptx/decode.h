// Translates the text of a PTX function's body into steps.
#pragma once

#include <string_view>

#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {

// Throws Error for an unknown instruction, with its text.
void decode(Function& function, std::string_view body, Module& module);

}  // namespace shardproof::ptx
