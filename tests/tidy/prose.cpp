// Checks rules of docs/style.md: the first word of a comment, the comment at the top of a file, the
// length of lines of documentation pages.
#include <algorithm>
#include <array>
#include <cctype>

#include "shardproof/tests/tidy/comments.h"
#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

constexpr std::size_t kDocsColumns = 120;

// A sentence that begins with one of these words has no subject yet.
constexpr std::array<std::string_view, 7> kNoSubject = {"of",      "what", "who", "where",
                                                        "whether", "that", "as"};

// The first word of a line of prose in lower case. Empty for a list, a table and a line of code,
// which begin with blanks or a mark or join their first word to one.
std::string first_word(const std::string& text) {
  std::string word;
  std::size_t at = 0;
  for (; at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])); ++at) {
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
  }
  bool ends = at == text.size() || text[at] == ' ' || text[at] == ',' || text[at] == ':';
  bool column = text.substr(at).starts_with("  ");
  return ends && !column ? word : "";
}

bool is_sentence(const Comment& comment) {
  return !comment.trailing || std::isupper(static_cast<unsigned char>(comment.text[0]));
}

// Code points, not bytes.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool is_table_row(const std::string& line) {
  std::size_t at = line.find_first_not_of(' ');
  return at != std::string::npos && line[at] == '|';
}

}  // namespace

Violations check_comment_openings(const Source& source) {
  Violations found;
  for (const Comment& comment : comments_of(source)) {
    if (!is_sentence(comment)) continue;
    std::string word = first_word(comment.text);
    if (std::find(kNoSubject.begin(), kNoSubject.end(), word) == kNoSubject.end()) continue;
    found.push_back({source.path, comment.line,
                     "the comment begins with \"" + comment.text.substr(0, word.size()) +
                         "\"; begin with its subject or a verb: \"Returns\", \"True if\", \"The "
                         "coordinator sends\"",
                     ""});
  }
  return found;
}

Violations check_file_openings(const Source& source) {
  if (!source.is_code() || room_position(source.room()) < 0) return {};
  if (!source.lines.empty() && source.lines[0].starts_with("//")) return {};
  const char* message =
      source.is_header()
          ? "the header does not open with a comment; write above #pragma once what the thing is"
          : "the source does not open with a comment; write above the first #include which header "
            "it implements and how";
  return {{source.path, 1, message, ""}};
}

Violations check_docs_lines(const Source& source) {
  Violations found;
  if (!source.path.ends_with(".md")) return found;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::size_t length = columns(source.lines[i]);
    if (length <= kDocsColumns || is_table_row(source.lines[i])) continue;
    found.push_back({source.path, i + 1,
                     std::to_string(length) + " columns; the limit of a page is " +
                         std::to_string(kDocsColumns) + ": write one sentence a line",
                     ""});
  }
  return found;
}

}  // namespace shardproof::tidy
