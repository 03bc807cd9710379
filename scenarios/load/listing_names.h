// Names, verbs and streams that occur in a listing, for checks before a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

using NameUse = std::pair<std::string, SourceLocation>;

// Return all occurrences in order of writing.
std::vector<NameUse> names_read(const Listing& listing);
std::vector<NameUse> verbs_called(const Listing& listing);
std::vector<NameTemplate> names_bound(const Listing& listing);  // names of values and numbers
std::vector<NameUse> streams_named(const Listing& listing);     // names in `on name:` without holes

// True if the listing reads the value of this name; a name with holes counts if it can be filled to
// it.
bool may_read(const Listing& listing, const std::string& name);

}  // namespace shardproof
