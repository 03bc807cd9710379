// trimmed: a text without the blanks at both ends.
#pragma once

#include <string_view>

namespace shardproof {

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace shardproof
