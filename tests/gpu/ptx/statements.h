// The text of PTX in pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ptx {

std::string without_comments(std::string text);
std::string_view trimmed(std::string_view text);
// Nonempty pieces between any of these characters.
std::vector<std::string_view> split(std::string_view text, std::string_view between);
// Pieces between commas outside brackets of any kind, trimmed.
std::vector<std::string_view> operands_of(std::string_view text);
// The place of the brace that closes the one at `open`.
size_t end_of_scope(std::string_view text, size_t open);
// 12, -1, 0x3340U, 0f3F800000, 0d3FF0000000000000: its bits, an integer's extended by its sign.
// Error: no number.
int64_t number_of(std::string_view text);
bool is_number(std::string_view text);
// Of a type such as "b64", "f32" or "u8".
int64_t bytes_of_type(std::string_view type);

}  // namespace shardproof::ptx
