// PlacedText: an argument such as "dp:S(0) on pp=0", cut at its word "on". Views into the text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof::detail {

struct PlacedText {
  std::string_view placements;  // without the spaces around it
  bool has_on = false;
  std::string on;  // its words with one space between two
  int on_at = 0;   // characters before its first word, or before the end when it has none
};

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

}  // namespace shardproof::detail
