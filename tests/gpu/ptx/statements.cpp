// Implements statements.h.
#include "shardproof/tests/gpu/ptx/statements.h"

#include <cctype>
#include <charconv>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::ptx {

std::string without_comments(std::string text) {
  for (size_t at = 0; (at = text.find('/', at)) != std::string::npos; ++at) {
    const bool is_line = text.compare(at, 2, "//") == 0;
    if (!is_line && text.compare(at, 2, "/*") != 0) continue;
    size_t end = is_line ? text.find('\n', at) : text.find("*/", at) + 2;
    if (end > text.size()) end = text.size();
    for (size_t i = at; i < end; ++i) text[i] = ' ';
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\n\r");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t\n\r") - start + 1);
}

std::vector<std::string_view> split(std::string_view text, std::string_view between) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; (at = text.find_first_not_of(between, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(between, at), text.size());
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

std::vector<std::string_view> operands_of(std::string_view text) {
  std::vector<std::string_view> operands;
  int depth = 0;
  size_t start = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ',';
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c != ',' || (depth > 0 && at < text.size())) continue;
    const std::string_view piece = trimmed(text.substr(start, at - start));
    if (!piece.empty()) operands.push_back(piece);
    start = at + 1;
  }
  return operands;
}

size_t end_of_scope(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at;
  }
  throw_bad_input("PTX ends within braces");
}

bool is_number(std::string_view text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 ||
                           (text[0] == '-' && text.size() > 1));
}

int64_t number_of(std::string_view text) {
  const std::string_view whole = text;
  const bool minus = text.starts_with("-");
  if (minus) text.remove_prefix(1);
  int base = 10;
  for (const char* prefix : {"0x", "0X", "0f", "0F", "0d", "0D"})
    if (text.starts_with(prefix)) base = 16;
  if (base == 16) text.remove_prefix(2);
  if (text.ends_with("U")) text.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc() || end != text.data() + text.size())
    throw_bad_input("a number expected in PTX, found \"{}\"", whole);
  return static_cast<int64_t>(minus ? -value : value);
}

int64_t bytes_of_type(std::string_view type) {
  for (const char* wide : {"64", "32", "16"})
    if (type.ends_with(wide)) return number_of(wide) / 8;
  return 1;
}

}  // namespace shardproof::ptx
