// Implements json_tree.h except read_json, which is in json_tree_parse.cpp.
#include "shardproof/scenarios/json/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardproof {
namespace {

void add_shown(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (byte < 0x20 || byte == 0x7f) {
    out += fmt::format("\\u{:04x}", byte);
  } else {
    out += c;
  }
}

}  // namespace

std::string_view name(JsonKind kind) {
  switch (kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return "a boolean";
    case JsonKind::integer: return "an integer";
    case JsonKind::real: return "a number";
    case JsonKind::text: return "a string";
    case JsonKind::list: return "a list";
    case JsonKind::object: return "an object";
  }
  return "?";
}

JsonTree JsonTree::of(std::string text) {
  JsonTree tree;
  tree.kind = JsonKind::text;
  tree.text = std::move(text);
  return tree;
}

const JsonTree* JsonTree::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

JsonTree& JsonTree::at_or_add(const std::string& key) {
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found != keys.end()) return items[static_cast<size_t>(found - keys.begin())];
  keys.push_back(key);
  items.emplace_back();
  return items.back();
}

void JsonTree::erase(std::string_view key) {
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found == keys.end()) return;
  items.erase(items.begin() + (found - keys.begin()));
  keys.erase(found);
}

bool is_own_format(const JsonTree& tree) {
  for (const char* key : {"format", "tool"})
    if (const JsonTree* found = tree.find(key))
      if (found->kind == JsonKind::text && found->text.starts_with("shardproof")) return true;
  return false;
}

std::string quoted_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    add_shown(out, c);
  }
  return out + "\"";
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) add_shown(out, c);
  return out;
}

std::string to_string(const JsonTree& tree) {
  switch (tree.kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return tree.boolean ? "true" : "false";
    case JsonKind::integer: return std::to_string(tree.integer);
    case JsonKind::real: return fmt::format("{}", tree.real);
    case JsonKind::text: return quoted_json(tree.text);
    case JsonKind::list:
    case JsonKind::object: break;
  }
  std::string out;
  for (size_t i = 0; i < tree.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (tree.kind == JsonKind::object) out += quoted_json(tree.keys[i]) + ": ";
    out += to_string(tree.items[i]);
  }
  return tree.kind == JsonKind::list ? "[" + out + "]" : "{" + out + "}";
}

std::string pointer_step(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      add_shown(out, c);
    }
  }
  return out;
}

}  // namespace shardproof
