// A source file as the tidy rules read it, and the violation that a rule reports.
//
// Every rule takes one `Source` or the whole tree and returns `Violations`. The files are read
// once. `code` equals `text` with comments and the contents of literals replaced by blanks, each
// byte at the same position. So no rule mistakes a word in a comment for code.
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
  bool is_code() const;        // C++ or CUDA
  bool is_cmake() const;       // CMakeLists.txt or *.cmake
  std::string room() const;    // the top-level folder, "" for a file at the root
  std::string folder() const;  // the folder that holds the file, "" for a file at the root
};

struct Violation {
  std::string path;
  std::size_t line = 0;
  std::string message;
  std::string rule;  // name of the rule; check_tree writes it

  bool operator==(const Violation&) const = default;
};

using Violations = std::vector<Violation>;

// Position of a room in the include order of rooms, or -1 for a folder that is not a room.
int room_position(std::string_view folder);

// True for a letter, a digit and '_'.
bool is_word(char c);

// Returns `text` with comments and literals replaced by blanks. Line ends stay.
std::string blank_comments_and_literals(std::string_view text);

// Returns the offset of each `//` that opens a comment, in increasing order.
std::vector<std::size_t> comment_offsets(std::string_view text);

// Requires a path relative to the root.
Source make_source(std::string path, std::string text);

// Reads every text file below `root`, in path order. Skips build folders and hidden folders.
std::vector<Source> load_tree(const std::filesystem::path& root);

}  // namespace shardproof::tidy
