// What a listing mentions, without knowing what it means: names, verbs, streams. For checks before
// a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

using NameUse = std::pair<std::string, SourceLocation>;

// In order of writing; a name that is mentioned often stands often.
std::vector<NameUse> names_read(const Listing& listing);
std::vector<NameUse> verbs_called(const Listing& listing);
std::vector<NameTemplate> names_bound(const Listing& listing);  // of values and numbers
std::vector<NameUse> streams_named(const Listing& listing);     // of `on name:`, without holes

}  // namespace shardproof
