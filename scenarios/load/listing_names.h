// What a listing mentions, without knowing what it means: names, verbs, streams. For checks before
// a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

using Mention = std::pair<std::string, Place>;

// In order of writing; a name that is mentioned often stands often.
std::vector<Mention> names_read(const Listing& listing);
std::vector<Mention> verbs_called(const Listing& listing);
std::vector<NameTemplate> names_bound(const Listing& listing);  // of values and numbers
std::vector<Mention> streams_named(const Listing& listing);     // of `on name:`, without holes

}  // namespace shardproof
