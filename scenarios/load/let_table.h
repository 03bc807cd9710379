// LetTable: the `let` of a scenario. "$name" pastes the text of a let. A bare name in an expression
// is its number. A let that is not a number is an error only where its bare name is used.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/evaluate.h"
#include "shardproof/program/value/select_ranks.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

class LetTable {
 public:
  LetTable() = default;
  explicit LetTable(const JsonReader& let);  // pastes earlier lets into later ones

  // Replaces "$name" in every text and key below `tree`. Throws Error(bad_input) for an unknown
  // name and Error(limit) above 1 MiB.
  void paste(JsonTree& tree, const std::string& path) const;
  // Evaluates all lets in order of writing. `meshes` gives the values of size(axis).
  void evaluate_all(const NamedMeshes& meshes);

  // Returns the scope of lets and size(axis). It throws the error of a let whose expression failed.
  // The table must outlive the scope.
  NumberScope scope() const;
  std::vector<std::pair<std::string, Number>> numbers() const;  // lets with a value
  const std::vector<std::string>& names() const { return names_; }
  // Throws the error of a let that failed if the listing reads its name.
  void check_uses(const Listing& listing) const;

 private:
  struct Let {
    JsonTree tree;
    std::string text, path;
    std::optional<Number> value;
    std::optional<Error> error;
  };
  std::string paste_text(const std::string& text, const std::string& path) const;
  std::optional<Number> number_of(const std::string& name) const;
  std::optional<Number> axis_size(const std::string& axis) const;

  std::vector<std::string> names_;
  std::map<std::string, Let> lets_;
  NamedMeshes meshes_;
};

// Return the number of a JSON value: a number, a boolean, an expression in a text, or a list of
// these. Throw Error(bad_input).
Number read_number(const JsonReader& reader, const NumberScope& scope);
int64_t read_integer(const JsonReader& reader, const NumberScope& scope);

// Reads nested lists of equal lengths as a shape and row-major elements; a bare number has no dims.
// `check` throws for an element that is not allowed; of a complex one it gets the real part.
struct NestedNumbers {
  Dims shape;
  std::vector<Number> elements;   // real parts
  std::vector<double> imaginary;  // of each element; empty if none is written as "1+2j"
};
// Returns the parts of a complex number as Python writes it, "1+2j", "-0.5j"; nullopt for any other
// text.
std::optional<std::pair<double, double>> parse_complex(std::string_view text);
NestedNumbers read_nested(const JsonReader& reader, const NumberScope& scope,
                          const std::function<void(const Number&, bool is_complex)>& check);

}  // namespace shardproof
