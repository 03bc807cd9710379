// Implements value_names.h.
#include "shardproof/program/ir/value_names.h"

#include <fmt/format.h>

#include <utility>

namespace shardproof {

std::string ValueNames::next(const std::string& bound) {
  if (bound.empty()) return numbered(bound);
  bool& used = taken_[bound];
  return std::exchange(used, true) ? numbered(bound) : bound;
}

std::string ValueNames::numbered(const std::string& stem) {
  int& number = numbers_[stem];
  for (;;) {
    std::string name = fmt::format("{}_{}", stem, ++number);
    if (taken_.try_emplace(name, false).second) return name;
  }
}

}  // namespace shardproof
