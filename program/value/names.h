// Names of the language: their spelling, and the reserved words that cannot be bound.
#pragma once

#include <string_view>

namespace shardproof {

// True for letters, digits and `_`, the first not a digit.
bool is_name(std::string_view text);
// True for a reserved word, dtypes included. A reserved word may be used where it has a meaning
// (`rank`, `next`, `bf16`). It may not name a tensor, a `let`, an axis, a stream, a loop variable
// or a value.
bool is_reserved(std::string_view name);

bool is_digit(char c);           // 0 to 9
bool is_name_start(char c);      // a letter or `_`
bool is_name_character(char c);  // a letter, a digit or `_`

}  // namespace shardproof
