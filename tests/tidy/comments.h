// The comments of a file, cut into the paragraphs that the style rules check.
//
// A paragraph is a run of whole-line comments with equal indentation, up to a blank comment line.
// A comment after code is a paragraph of its own. CMake files and shell scripts comment with `#`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shardproof/tests/tidy/source.h"

namespace shardproof::tidy {

struct Comment {
  std::size_t line = 0;   // of its first line, from 1
  std::string text;       // first line without the comment mark and one blank
  bool trailing = false;  // follows code on its line
};

// Returns the paragraphs in file order. Empty for a file that is neither code nor a script.
std::vector<Comment> comments_of(const Source& source);

}  // namespace shardproof::tidy
