// ValueNames: a name of its own for each value of a printed program.
//
// The first value that an author's name is bound to has that name. Later ones have the name with
// the next free number: g, g_1, g_2. Values without a name are _1, _2, ...
//
// Example: h, h, h_1, "", "" become h, h_2, h_1, _1, _2.
#pragma once

#include <map>
#include <string>
#include <unordered_set>

namespace shardproof {

class ValueNames {
 public:
  // `reserved`: names that no value gets unless its author gave it.
  explicit ValueNames(std::unordered_set<std::string> reserved) : taken_(std::move(reserved)) {}

  // Returns the name of the next value; `bound` is the author's name, "" if there is none.
  std::string next(const std::string& bound);
  // Returns `stem` with the next free number.
  std::string numbered(const std::string& stem);

 private:
  std::unordered_set<std::string> taken_;  // all names of the author, and those given
  std::unordered_set<std::string> used_;   // names of the author that a value has
  std::map<std::string, int> numbers_;
};

}  // namespace shardproof
