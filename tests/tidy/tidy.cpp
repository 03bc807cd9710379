// tidy [--count] <root>: prints every violation of the tree's rules as file:line: message and exits
// with 1 if there is one. With --count it prints violations by rule and room, exempt ones included.
#include <cstdio>
#include <cstring>
#include <exception>

#include "shardproof/tests/tidy/exemptions.h"
#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

int check(const char* root) {
  std::vector<Source> tree = load_tree(root);
  Violations found = without_exempt(check_tree(tree), tree_exemptions());
  std::string skipped;
  Violations unformatted = check_format(root, tree, skipped);
  found.insert(found.end(), unformatted.begin(), unformatted.end());
  for (const Violation& v : found) {
    std::printf("%s:%zu: %s\n", v.path.c_str(), v.line, v.message.c_str());
  }
  if (!skipped.empty()) std::printf("formatting not checked: %s\n", skipped.c_str());
  std::printf("tidy: %zu files, %zu violations\n", tree.size(), found.size());
  return found.empty() ? 0 : 1;
}

int count(const char* root) {
  std::string text = count_text(check_tree(load_tree(root)), tree_exemptions());
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace shardproof::tidy

int main(int argc, char** argv) {
  bool counts = argc == 3 && std::strcmp(argv[1], "--count") == 0;
  if (argc != 2 && !counts) {
    std::fprintf(stderr, "usage: tidy [--count] <root of the source tree>\n");
    return 2;
  }
  try {
    return counts ? shardproof::tidy::count(argv[2]) : shardproof::tidy::check(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidy: %s\n", error.what());
    return 2;
  }
}
