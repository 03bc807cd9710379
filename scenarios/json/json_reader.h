// JsonReader: reads a JsonTree with checked types. Its errors state the JSON path, what was
// expected and what was found. The tree must outlive the reader.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_tree.h"

namespace shardproof {

class JsonReader {
 public:
  JsonReader(const JsonTree& tree, std::string path) : tree_(&tree), path_(std::move(path)) {}

  const JsonTree& tree() const { return *tree_; }
  const std::string& path() const { return path_; }
  JsonKind kind() const { return tree_->kind; }
  bool has(std::string_view key) const { return tree_->find(key) != nullptr; }

  // Each throws Error(bad_input) if the value is of another kind.
  const std::string& text(std::string_view what = "a string") const;
  int64_t integer() const;
  bool flag() const;
  // The items of a list, the members of an object. `what` describes them in the message.
  std::vector<JsonReader> items(std::string_view what = "a list") const;
  std::vector<std::pair<std::string, JsonReader>> members(
      std::string_view what = "an object") const;
  // The value of a key. If the key is missing, the message ends with `example`.
  JsonReader at(std::string_view key, std::string_view example = "") const;
  // Returns an Error(bad_input) for each key that is not one of `known`. The message names the
  // nearest known key, or all of them. Throws Error(bad_input) if the value is not an object.
  std::vector<Error> unknown_keys(const std::vector<std::string_view>& known) const;
  void check_keys(const std::vector<std::string_view>& known) const;  // throws the first one

  // Throw Error(bad_input) at this path: with a message, or "expected WHAT, found VALUE".
  [[noreturn]] void refuse(const std::string& message) const;
  [[noreturn]] void expected(std::string_view what) const;
  // Returns what `action` returns. Adds this path to an Error without one.
  template <typename Action>
  auto inside(Action action) const {
    try {
      return action();
    } catch (const Error& error) {
      throw error.inside({"", path_, 0, 0});
    }
  }

 private:
  const JsonTree* tree_;
  std::string path_;
};

}  // namespace shardproof
