// Implements key_value_text.h: one pass over the text, pair by pair.
#include <charconv>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/report/key_value_text.h"

namespace shardproof::detail {
namespace {

bool is_plain(std::string_view value) {
  if (value.empty()) return false;
  for (const char c : value)
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\\') return false;
  return true;
}

std::string quoted(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text + '"';
}

// Removes a quoted value from the front of `text`, which begins after the opening quote.
std::string take_quoted(std::string_view& text) {
  std::string value;
  while (!text.empty() && text[0] != '"') {
    const bool escaped = text[0] == '\\' && text.size() > 1;
    if (escaped) text.remove_prefix(1);
    value += escaped && text[0] == 'n' ? '\n' : text[0];
    text.remove_prefix(1);
  }
  if (text.empty()) throw_bad_input("expected a closing quote, found the end of the line");
  text.remove_prefix(1);
  return value;
}

std::string take_plain(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return std::string(word);
}

}  // namespace

void FieldWriter::add(std::string_view key, std::string_view value) {
  if (!text_.empty()) text_ += ' ';
  text_ += key;
  text_ += '=';
  text_ += is_plain(value) ? std::string(value) : quoted(value);
}

std::vector<Field> parse_fields(std::string_view text) {
  std::vector<Field> fields;
  while (true) {
    while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
    if (text.empty()) return fields;
    const size_t equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    if (equals == text.npos || key.empty() || key.find(' ') != key.npos)
      throw_bad_input("expected key=value, found \"{}\"", text.substr(0, text.find(' ')));
    Field& field = fields.emplace_back();
    field.key = key;
    text.remove_prefix(equals + 1);
    if (!text.empty() && text[0] == '"') {
      text.remove_prefix(1);
      field.value = take_quoted(text);
    } else {
      field.value = take_plain(text);
    }
  }
}

int64_t integer_of(const Field& field) {
  int64_t value = 0;
  const char* end = field.value.data() + field.value.size();
  const auto [stop, trouble] = std::from_chars(field.value.data(), end, value);
  if (trouble != std::errc{} || stop != end) refuse(field);
  return value;
}

void refuse(const Field& field) {
  throw_bad_input("\"{}\" is not a value of {}", field.value, field.key);
}

}  // namespace shardproof::detail
