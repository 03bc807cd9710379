// The namespaces that enclose each line of a source, for the rules about equal names.
//
// The sources are formatted: a namespace opens and closes on a line of its own, and a comment on
// the closing line names it.
#pragma once

#include <string>
#include <vector>

#include "shardproof/tests/tidy/source.h"

namespace shardproof::tidy {

struct Scope {
  std::string name;        // open namespaces, each followed by "::"; "" for an anonymous one
  bool anonymous = false;  // one of them is anonymous
};

// Returns one scope for each line of `source.lines`.
std::vector<Scope> scopes_of(const Source& source);

}  // namespace shardproof::tidy
