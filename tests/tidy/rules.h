// The tidy rules. Each looks at one file, or at the whole tree, and returns what it found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shardproof/tests/tidy/source.h"

namespace shardproof::tidy {

// Room order, what each room must never know, and libraries that no public header shows.
Violations check_includes(const Source& source);

// Lengths of headers, sources and functions.
Violations check_sizes(const Source& source);

// Opening comment, macros, conditionals on backends, words that stay out.
Violations check_habits(const Source& source);

// Every source named by a CMakeLists.txt, every header included by somebody, nothing globbed.
Violations check_build_lists(const std::vector<Source>& tree);

// No two types of one name in one namespace.
Violations check_type_names(const std::vector<Source>& tree);

// clang-format's opinion. `skipped` receives the reason when there is none to be had.
Violations check_format(const std::filesystem::path& root, const std::vector<Source>& tree,
                        std::string& skipped);

// All rules but the format.
Violations check_tree(const std::vector<Source>& tree);

}  // namespace shardproof::tidy
