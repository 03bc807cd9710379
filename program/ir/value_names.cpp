// Implements value_names.h.
#include "shardproof/program/ir/value_names.h"

#include <fmt/format.h>

namespace shardproof {

std::string ValueNames::next(const std::string& bound) {
  if (!bound.empty() && used_.insert(bound).second) {
    taken_.insert(bound);
    return bound;
  }
  return numbered(bound);
}

std::string ValueNames::numbered(const std::string& stem) {
  int& number = numbers_[stem];
  for (;;) {
    std::string name = fmt::format("{}_{}", stem, ++number);
    if (taken_.insert(name).second) return name;
  }
}

}  // namespace shardproof
