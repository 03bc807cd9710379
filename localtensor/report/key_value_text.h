// Text of `key=value` pairs on one line: the text form of call records and findings.
//
//   key        any characters but space and '='; not empty
//   plain      a value without space, quote, backslash or control character, written as it is
//   quoted     any other value, also the empty one: in double quotes with the escapes \" \\ \n
//
// Example: verdict=deadlock line=3 headline="ranks 0 and 1 wait for each other"
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardproof::detail {

// Appends pairs in the order of the calls; release() returns the line.
class FieldWriter {
 public:
  void add(std::string_view key, std::string_view value);  // quotes the value if it needs quotes
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::integral auto value) { add(key, std::to_string(value)); }
  std::string release() { return std::move(text_); }

 private:
  std::string text_;
};

struct Field {
  std::string key, value;
};

// Returns the pairs in the order of the text; none for empty text. Throws Error(bad_input) for a
// word without a key, or a quote that is not closed.
std::vector<Field> parse_fields(std::string_view text);
// Returns the value as an integer. Throws Error(bad_input) that names the field.
int64_t integer_of(const Field& field);
// Throws Error(bad_input): the value is not legal for the field.
[[noreturn]] void refuse(const Field& field);

}  // namespace shardproof::detail
