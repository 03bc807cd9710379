#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {

Violations check_tree(const std::vector<Source>& tree) {
  Violations found;
  for (const Source& source : tree) {
    for (auto rule : {check_includes, check_sizes, check_habits}) {
      Violations more = rule(source);
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  for (auto rule : {check_build_lists, check_type_names}) {
    Violations more = rule(tree);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

}  // namespace shardproof::tidy
