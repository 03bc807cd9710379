// From the text of a function's body to its steps.
#pragma once

#include <string_view>

#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {

// Error: an instruction that is not known, with its text.
void decode(Function& function, std::string_view body, Module& module);

}  // namespace shardproof::ptx
