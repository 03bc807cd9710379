// Implements names.h.
#include <algorithm>
#include <array>

#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/program/value/names.h"

namespace shardproof {

// Ranges of characters, because the functions of <cctype> depend on the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_name_character(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

bool is_name(std::string_view text) {
  return !text.empty() && is_name_start(text.front()) &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

bool is_reserved(std::string_view name) {
  static constexpr std::array<std::string_view, 27> kReserved = {
      "R",     "S",    "P",     "all", "rest", "main", "next", "prev", "rank",
      "world", "true", "false", "if",  "else", "for",  "in",   "on",   "group",
      "as",    "inf",  "nan",   "and", "or",   "not",  "None", "True", "False"};
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end() ||
         parse_dtype(name).has_value();
}

}  // namespace shardproof
