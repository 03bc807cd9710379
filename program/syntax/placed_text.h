// PlacedText: an argument such as "dp:S(0) on pp=0", split at its word "on".
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof {

struct PlacedText {
  std::string_view placements;  // a view into the text, without surrounding spaces
  bool has_on = false;
  std::string on;  // the words after "on", separated by single spaces
  int on_at = 0;   // number of characters before the first of these words, or before the end
};

// Returns the number of UTF-8 characters.
inline int characters_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

inline PlacedText split_placed(std::string_view text) {
  PlacedText parts;
  size_t at = 0;
  while ((at = text.find_first_not_of(' ', at)) != std::string_view::npos) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (parts.has_on) {
      if (parts.on.empty()) parts.on_at = characters_of(text.substr(0, at));
      parts.on += (parts.on.empty() ? "" : " ") + std::string(word);
    } else if (word == "on") {
      parts.has_on = true;
      parts.on_at = characters_of(text.substr(0, end));
    } else {
      parts.placements = text.substr(0, end);
    }
    at = end;
  }
  return parts;
}

}  // namespace shardproof
