// A file of the tree as the tidy rules see it, and what a rule reports.
//
// `code` is the text with comments and the contents of literals blanked out, byte for byte at the
// same place, so that a word in a comment is never taken for code.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::tidy {

struct Source {
  std::string path;  // relative to the root, with '/'
  std::string text;
  std::string code;
  std::vector<std::string> lines;

  bool is_header() const;
  bool is_code() const;   // C++ or CUDA
  bool is_cmake() const;  // CMakeLists.txt or *.cmake
  bool is_private() const { return path.find("/detail/") != std::string::npos; }
  std::string room() const;  // the top-level folder, "" for a file at the root
};

struct Violation {
  std::string path;
  std::size_t line = 0;
  std::string message;

  bool operator==(const Violation&) const = default;
};

using Violations = std::vector<Violation>;

// Where a room stands in the tower, or -1 for a folder that is not a room.
int place_in_tower(std::string_view folder);

std::string blank_comments_and_literals(std::string_view text);
Source make_source(std::string path, std::string text);

// Every text file below root in path order, without build folders and hidden folders.
std::vector<Source> load_tree(const std::filesystem::path& root);

}  // namespace shardproof::tidy
