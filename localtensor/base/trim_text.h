// Parts of a text: trimmed() without the blanks at both ends, character_at() one character.
#pragma once

#include <string_view>

namespace shardproof {

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Returns the UTF-8 character that begins at a byte of the text.
inline std::string_view character_at(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return text.substr(at, end - at);
}

}  // namespace shardproof
