// Splits the text of PTX into statements, operands and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ptx {

std::string without_comments(std::string text);
std::string_view trimmed(std::string_view text);
// Returns the nonempty pieces between any of these characters.
std::vector<std::string_view> split(std::string_view text, std::string_view between);
// Returns the pieces between commas outside of brackets, trimmed.
std::vector<std::string_view> operands_of(std::string_view text);
// Returns the place of the brace that closes the one at `open`.
size_t end_of_scope(std::string_view text, size_t open);
// Returns the bits of 12, -1, 0x3340U, 0f3F800000 or 0d3FF0000000000000, an integer's extended by
// its sign. Throws Error if it is not a number.
int64_t number_of(std::string_view text);
bool is_number(std::string_view text);
// Returns the bytes of a type such as "b64", "f32" or "u8".
int64_t bytes_of_type(std::string_view type);

}  // namespace shardproof::ptx
