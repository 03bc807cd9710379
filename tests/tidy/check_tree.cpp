// The table of all rules by name. check_tree runs them and writes the name into each violation.
#include <array>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

struct FileRule {
  const char* name;
  Violations (*check)(const Source&);
};
constexpr std::array<FileRule, 8> kFileRules = {{
    {"includes", check_includes},
    {"sizes", check_sizes},
    {"habits", check_habits},
    {"comment-opening", check_comment_openings},
    {"file-opening", check_file_openings},
    {"docs-line", check_docs_lines},
    {"function-verb", check_function_verbs},
    {"folder-order", check_folder_order},
}};

struct TreeRule {
  const char* name;
  Violations (*check)(const std::vector<Source>&);
};
constexpr std::array<TreeRule, 7> kTreeRules = {{
    {"build-list", check_build_lists},
    {"public-header", check_public_headers},
    {"type-name", check_type_names},
    {"room-type-name", check_room_type_names},
    {"helper-name", check_helper_names},
    {"source-name", check_source_names},
    {"folder-size", check_folder_sizes},
}};

void append(const char* rule, Violations more, Violations& found) {
  for (Violation& violation : more) {
    violation.rule = rule;
    found.push_back(std::move(violation));
  }
}

}  // namespace

Violations check_tree(const std::vector<Source>& tree) {
  Violations found;
  for (const Source& source : tree) {
    for (const FileRule& rule : kFileRules) append(rule.name, rule.check(source), found);
  }
  for (const TreeRule& rule : kTreeRules) append(rule.name, rule.check(tree), found);
  return found;
}

}  // namespace shardproof::tidy
