// Ops that round nothing: each element of a float result is an element of an input of the same
// dtype, its negative, or a whole number that the dtype holds. A composite op need not widen their
// inputs.
#pragma once

#include <string_view>

namespace shardproof {

// True if the op rounds nothing, provided that its inputs convert to the result dtype exactly.
bool rounds_nothing(std::string_view op);

}  // namespace shardproof
