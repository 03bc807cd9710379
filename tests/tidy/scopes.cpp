// Implements scopes.h.
#include "shardproof/tests/tidy/scopes.h"

#include <algorithm>

namespace shardproof::tidy {

std::vector<Scope> scopes_of(const Source& source) {
  std::vector<Scope> scopes;
  std::vector<std::string> open;
  for (const std::string& line : source.lines) {
    if (line == "namespace {") {
      open.emplace_back();
    } else if (line.starts_with("namespace ") && line.ends_with(" {")) {
      open.push_back(line.substr(10, line.size() - 12) + "::");
    } else if (line.starts_with("}  // namespace") && !open.empty()) {
      open.pop_back();
    }
    Scope scope;
    for (const std::string& part : open) scope.name += part;
    scope.anonymous = std::find(open.begin(), open.end(), "") != open.end();
    scopes.push_back(std::move(scope));
  }
  return scopes;
}

}  // namespace shardproof::tidy
