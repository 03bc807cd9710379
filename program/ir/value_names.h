// ValueNames: a name of its own for each value of a printed program.
//
// The first value that an author's name is bound to has that name. Later ones have the name with
// the next free number: g, g_1, g_2. Values without a name are _1, _2, ...
//
// Example: h, h, h_1, "", "" become h, h_2, h_1, _1, _2.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

namespace shardproof {

class ValueNames {
 public:
  // After this, no value gets the name unless its author gave it.
  void reserve(const std::string& name) { taken_.try_emplace(name, false); }
  // Returns the name of the next value; `bound` is the author's name, "" if there is none.
  std::string next(const std::string& bound);
  // Returns `stem` with the next free number.
  std::string numbered(const std::string& stem);

 private:
  // Names reserved or given. True for an author's name that a value has.
  std::unordered_map<std::string, bool> taken_;
  std::map<std::string, int> numbers_;
};

}  // namespace shardproof
