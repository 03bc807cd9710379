// Parts of the tree in which a rule does not hold, and the count of violations a rule and room.
//
// A row names a rule and a path prefix. `tidy --count` names rows that no longer exempt anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardproof/tests/tidy/source.h"

namespace shardproof::tidy {

struct Exemption {
  std::string_view rule;
  std::string_view prefix;
};

const std::vector<Exemption>& tree_exemptions();

bool is_exempt(const Violation& violation, const std::vector<Exemption>& exemptions);

// Returns the violations that no row exempts, in the same order.
Violations without_exempt(const Violations& all, const std::vector<Exemption>& exemptions);

// A table of rules by rooms, exempt violations included, then the rows that exempt nothing.
std::string count_text(const Violations& all, const std::vector<Exemption>& exemptions);

}  // namespace shardproof::tidy
