// join_text: "a, b, c" from a range. Replaces fmt::join, whose inlined code gcc 12 warns about at
// -O3.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace shardproof {

// Returns the values as text, `separator` between them; empty for an empty range.
template <typename Range>
std::string join_text(const Range& values, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& value : values) {
    if (!first) out += separator;
    out += fmt::to_string(value);
    first = false;
  }
  return out;
}

}  // namespace shardproof
