// One line of `key=value` pairs, the text form of records and findings. A value that is empty or
// has a space, quote or control character is written in double quotes with \" \\ \n escapes.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardproof::detail {

class FieldWriter {
 public:
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::integral auto value) { add(key, std::to_string(value)); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

struct Field {
  std::string key, value;
};

// In the order of the text. Error(bad_input) for a word without key, or an open quote.
std::vector<Field> parse_fields(std::string_view text);
// Error(bad_input) that names the field.
int64_t integer_of(const Field& field);
[[noreturn]] void refuse(const Field& field);

}  // namespace shardproof::detail
