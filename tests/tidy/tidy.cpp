// tidy <root>: prints every breach of the tree's habits as file:line: message; exit 1 if any.
#include <cstdio>
#include <exception>

#include "shardproof/tests/tidy/rules.h"

int main(int argc, char** argv) {
  namespace tidy = shardproof::tidy;
  if (argc != 2) {
    std::fprintf(stderr, "usage: tidy <root of the source tree>\n");
    return 2;
  }
  try {
    std::vector<tidy::Source> tree = tidy::load_tree(argv[1]);
    tidy::Violations found = tidy::check_tree(tree);
    std::string skipped;
    tidy::Violations unformatted = tidy::check_format(argv[1], tree, skipped);
    found.insert(found.end(), unformatted.begin(), unformatted.end());
    for (const tidy::Violation& v : found) {
      std::printf("%s:%zu: %s\n", v.path.c_str(), v.line, v.message.c_str());
    }
    if (!skipped.empty()) std::printf("formatting not checked: %s\n", skipped.c_str());
    std::printf("tidy: %zu files, %zu violations\n", tree.size(), found.size());
    return found.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidy: %s\n", error.what());
    return 2;
  }
}
