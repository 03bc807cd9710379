// Implements check_build_lists: compares the files of the tree with the words of all CMake files
// and with the headers that sources include.
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

namespace fs = std::filesystem;

std::string without_comment(const std::string& line) { return line.substr(0, line.find('#')); }

// Adds every word of a CMake file, read as a path relative to its folder.
void collect_named(const Source& cmake, std::set<std::string>& named) {
  fs::path folder = fs::path(cmake.path).parent_path();
  for (const std::string& line : cmake.lines) {
    std::string words = without_comment(line);
    for (char& c : words) {
      if (c == '(' || c == ')' || c == '"' || c == ';') c = ' ';
    }
    std::istringstream in(words);
    for (std::string word; in >> word;) {
      named.insert((folder / word).lexically_normal().generic_string());
    }
  }
}

void collect_included(const Source& source, std::set<std::string>& included) {
  static const std::regex kInclude("^\\s*#\\s*include\\s*[<\"]shardproof/([^>\"]+)[>\"]");
  for (const std::string& line : source.lines) {
    std::smatch match;
    if (line.find("include") != std::string::npos && std::regex_search(line, match, kInclude))
      included.insert(match[1]);
  }
}

void check_globs(const Source& cmake, Violations& found) {
  static const std::regex kGlob("\\bfile\\s*\\(\\s*GLOB|\\baux_source_directory\\b");
  for (std::size_t i = 0; i < cmake.lines.size(); ++i) {
    if (std::regex_search(without_comment(cmake.lines[i]), kGlob)) {
      found.push_back({cmake.path, i + 1, "sources are globbed; list them", ""});
    }
  }
}

}  // namespace

Violations check_build_lists(const std::vector<Source>& tree) {
  Violations found;
  std::set<std::string> named;
  std::set<std::string> included;
  for (const Source& source : tree) {
    if (source.is_cmake()) {
      collect_named(source, named);
      if (source.path.ends_with("CMakeLists.txt")) check_globs(source, found);
    }
    if (source.is_code()) collect_included(source, included);
  }
  for (const Source& source : tree) {
    if (!source.is_code()) continue;
    if (source.is_header()) {
      if (included.count(source.path) || named.count(source.path)) continue;
      found.push_back(
          {source.path, 1, "no file includes this header; delete it or include it", ""});
    } else if (!named.count(source.path)) {
      found.push_back(
          {source.path, 1, "no CMakeLists.txt names this source; add it to its room's list", ""});
    }
  }
  return found;
}

}  // namespace shardproof::tidy
