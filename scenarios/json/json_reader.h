// JsonReader: a JsonTree with its path, for reading with checked types: every refusal names the
// path of the key, what was expected and what was found. The tree must outlive the reader.
#pragma once

#include <initializer_list>
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

  // Throw Error(bad_input) when the value is of another kind.
  const std::string& text() const;
  int64_t integer() const;
  bool flag() const;
  std::vector<JsonReader> items() const;                            // of a list
  std::vector<std::pair<std::string, JsonReader>> members() const;  // of an object
  JsonReader at(std::string_view key) const;                        // must be there
  // Every key must be one of `known`; else the nearest of them is named.
  void check_keys(const std::vector<std::string_view>& known) const;

  [[noreturn]] void refuse(const std::string& message) const;
  [[noreturn]] void expected(std::string_view what) const;
  // Runs `action`; an Error leaves with this path where it had none.
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
