// JsonTree: a JSON text as a value that keeps the order of keys. All JSON input of the project is
// read by read_json. It accepts UTF-8 with `//` and `/* */` comments. It refuses trailing commas,
// duplicate keys, more than kMaxJsonDepth levels, and integers that do not fit 64 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

inline constexpr int kMaxJsonDepth = 64;

enum class JsonKind { null, boolean, integer, real, text, list, object };
std::string_view name(JsonKind kind);  // "a list", for messages

struct JsonTree {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<JsonTree> items;    // items of a list, or values of an object
  std::vector<std::string> keys;  // keys of an object, in the order of `items`
  bool operator==(const JsonTree&) const = default;

  static JsonTree of(std::string text);              // returns a text
  const JsonTree* find(std::string_view key) const;  // null if there is no such key
  JsonTree& at_or_add(const std::string& key);       // adds null
  void erase(std::string_view key);                  // does nothing if there is no such key
};

// True if shardproof wrote the file: its "format" or "tool" begins with "shardproof".
bool is_own_format(const JsonTree& tree);

// Parses a text. Throws Error(bad_input) with the place in the text.
JsonTree read_json(std::string_view text);
// Returns the JSON text in one line, for messages and names of cases.
std::string to_string(const JsonTree& tree);
// Returns the text with quotes and escapes.
std::string quoted_json(std::string_view text);

// Returns the text with control characters as JSON escapes, so that it stays one line.
std::string without_controls(std::string_view text);

// Returns "/KEY" for a JSON pointer, with "~", "/" and control characters escaped.
std::string pointer_step(std::string_view key);

}  // namespace shardproof
