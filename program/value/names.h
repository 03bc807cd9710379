// Which words the language takes as names, and which of them are its own and cannot be bound.
#pragma once

#include <string_view>

namespace shardproof {

// Letters, digits and `_`, not first a digit.
bool is_name(std::string_view text);
// The reserved words of the language, dtypes included. They may be read where they mean something
// (`rank`, `next`, `bf16`), never bound: not a tensor, a `let`, an axis, a stream, a loop variable
// or a value.
bool is_reserved(std::string_view name);

bool is_name_start(char c);
bool is_name_character(char c);

}  // namespace shardproof
