// Implements comments.h: collects the comment of each line, then joins whole-line comments of equal
// indentation into paragraphs and returns the first line of each.
#include "shardproof/tests/tidy/comments.h"

#include <algorithm>
#include <optional>

namespace shardproof::tidy {
namespace {

// The comment of one line.
struct LineComment {
  std::size_t line = 0;
  std::size_t column = 0;
  std::string text;
  bool trailing = false;
};

std::string text_behind(const std::string& line, std::size_t at) {
  if (at < line.size() && line[at] == ' ') ++at;
  return at < line.size() ? line.substr(at) : "";
}

std::vector<LineComment> code_comments(const Source& source) {
  std::vector<LineComment> found;
  std::size_t line = 0;
  std::size_t begin = 0;
  for (std::size_t offset : comment_offsets(source.text)) {
    for (std::size_t end; (end = source.text.find('\n', begin)) < offset; begin = end + 1) ++line;
    std::size_t column = offset - begin;
    bool trailing = source.lines[line].find_first_not_of(" \t") < column;
    found.push_back({line + 1, column, text_behind(source.lines[line], column + 2), trailing});
  }
  return found;
}

std::vector<LineComment> script_comments(const Source& source) {
  std::vector<LineComment> found;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::size_t column = source.lines[i].find_first_not_of(" \t");
    if (column == std::string::npos || source.lines[i][column] != '#') continue;
    if (source.lines[i].starts_with("#!")) continue;
    found.push_back({i + 1, column, text_behind(source.lines[i], column + 1), false});
  }
  return found;
}

bool is_blank(const std::string& text) { return text.find_first_not_of(' ') == std::string::npos; }

bool continues(const LineComment& before, const LineComment& now) {
  return !is_blank(before.text) && before.line + 1 == now.line && before.column == now.column;
}

}  // namespace

std::vector<Comment> comments_of(const Source& source) {
  std::vector<LineComment> lines;
  if (source.is_code()) lines = code_comments(source);
  if (source.is_cmake() || source.path == "dev") lines = script_comments(source);
  std::vector<Comment> found;
  std::optional<LineComment> before;
  for (LineComment& now : lines) {
    bool starts = !before || !continues(*before, now);
    if (starts && !is_blank(now.text)) found.push_back({now.line, now.text, now.trailing});
    before = std::move(now);
  }
  return found;
}

}  // namespace shardproof::tidy
