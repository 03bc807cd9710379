// JsonTree: a JSON text as a plain value that keeps the order of keys. `read_json` is the only
// place where the project reads JSON: UTF-8, `//` and `/* */` comments, no trailing commas, no key
// twice in an object, at most kMaxJsonDepth levels, integers that fit 64 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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
  std::vector<JsonTree> items;    // of a list, or the values of an object
  std::vector<std::string> keys;  // of an object, beside items
  bool operator==(const JsonTree&) const = default;

  static JsonTree of(std::string text);
  const JsonTree* find(std::string_view key) const;
  JsonTree& at_or_add(const std::string& key);
  void erase(std::string_view key);
};

// Throws Error(bad_input) with line and column of the text.
JsonTree read_json(std::string_view text);
// One line; what a case's name and messages show.
std::string to_string(const JsonTree& tree);
std::string quoted_json(std::string_view text);  // with quotes and escapes

// Control characters as JSON escapes them: what is shown stays one line.
std::string without_controls(std::string_view text);

// A key of an object as a step of a JSON pointer: "~", "/" and control characters are escaped.
std::string pointer_step(std::string_view key);

}  // namespace shardproof
