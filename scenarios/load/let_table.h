// LetTable: the `let` of a scenario. A text is pasted as it stands ("$name") and read as an
// expression only where its bare name is used, so a name that cannot be evaluated is an error only
// then.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/evaluate.h"
#include "shardproof/program/value/select_ranks.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

class LetTable {
 public:
  LetTable() = default;
  explicit LetTable(const JsonReader& let);  // an object; texts paste those before them

  // Replaces "$name" in every string below `tree`, keys included.
  void paste(JsonTree& tree, const std::string& path) const;
  // Evaluates in order of writing; size(axis) knows `meshes`.
  void evaluate_all(const NamedMeshes& meshes);

  // Lets and size(axis). A name whose expression failed throws its error. Outlived by the table.
  NumberScope scope() const;
  std::vector<std::pair<std::string, Number>> numbers() const;  // those that are numbers
  const std::vector<std::string>& names() const { return names_; }
  // Throws the error of every let that failed and whose name the listing reads.
  void check_uses(const Listing& listing) const;

 private:
  struct Let {
    JsonTree tree;
    std::string text, path;
    std::optional<Number> value;
    std::optional<Error> error;
  };
  std::string paste_text(const std::string& text, const std::string& path) const;
  Number evaluate_tree(const JsonTree& tree) const;
  std::optional<Number> number_of(const std::string& name) const;
  std::optional<Number> axis_size(const std::string& axis) const;

  std::vector<std::string> names_;
  std::map<std::string, Let> lets_;
  NamedMeshes meshes_;
};

// Number of a JSON value: a number, a boolean, an expression in a string, or a list of such.
Number read_number(const JsonReader& reader, const NumberScope& scope);
int64_t read_integer(const JsonReader& reader, const NumberScope& scope);

// Nested lists of equal length as one row-major list; a bare number has no dims. `check` refuses
// elements.
struct NestedNumbers {
  Dims shape;
  std::vector<Number> elements;
};
NestedNumbers read_nested(const JsonReader& reader, const NumberScope& scope,
                          const std::function<void(const Number&)>& check);

}  // namespace shardproof
