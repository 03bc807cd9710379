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
  Violations lists = check_build_lists(tree);
  found.insert(found.end(), lists.begin(), lists.end());
  return found;
}

}  // namespace shardproof::tidy
