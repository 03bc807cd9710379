// Implements check_sizes. A function's length is counted from its head to its closing brace. Braces
// are classified by the text before them, which works because clang-format formats the sources.
#include <algorithm>
#include <cctype>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

constexpr std::size_t kHeaderLines = 250;
constexpr std::size_t kSourceLines = 700;
constexpr std::size_t kFunctionLines = 70;

enum class Brace { kScope, kFunction, kInitializer };

// Returns the kind of a brace by the text since the last statement ended. The sources are
// formatted: a body has a space before its brace, an initializer such as `a_{1}` has none.
Brace classify(const std::string& head) {
  static const std::regex kScope(
      "^\\s*((public|private|protected)\\s*:\\s*)*(inline\\s+)?(template\\s*<.*>\\s*)?"
      "(namespace\\b|extern\\s*$|(class|struct|union|enum)\\b(?!.*\\)\\s*$))");
  static const std::regex kInitializer("(=|,|\\(|\\{\\}|\\breturn)\\s*$|\\S$");
  if (std::regex_search(head, kScope)) return Brace::kScope;
  bool body = head.find(')') != std::string::npos;
  static const std::regex kAfterMember("\\{\\}\\s+$");
  bool after_member = std::regex_search(head, kAfterMember);
  if (body && after_member) return Brace::kFunction;
  if (!body || std::regex_search(head, kInitializer)) return Brace::kInitializer;
  return Brace::kFunction;
}

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Preprocessor lines hold braces that open nothing.
std::string without_directives(std::string code) {
  bool in_directive = false;
  bool line_start = true;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '\n') {
      in_directive = in_directive && i > 0 && code[i - 1] == '\\';
      line_start = true;
    } else if (line_start && code[i] == '#') {
      in_directive = true;
    } else if (!std::isspace(static_cast<unsigned char>(code[i]))) {
      line_start = false;
    }
    if (in_directive && code[i] != '\n' && code[i] != '\\') code[i] = ' ';
  }
  return code;
}

// Counts the braces of one file. Inside a function or an initializer it counts only the depth.
class FunctionMeter {
 public:
  explicit FunctionMeter(const Source& source) : source_(source) {}

  Violations run() {
    std::size_t line = 1;
    for (char c : without_directives(source_.code)) {
      if (c == '\n') ++line;
      if (inside_ != Brace::kScope) {
        if (c == '{') ++inner_depth_;
        if (c == '}' && --inner_depth_ == 0) leave(line);
      } else if (c == '{') {
        enter(line);
      } else if (c == ';' || c == '}') {
        start_head();
      } else {
        extend_head(c, line);
      }
    }
    return found_;
  }

 private:
  void start_head() {
    head_.clear();
    head_line_ = 0;
  }

  void extend_head(char c, std::size_t line) {
    if (head_line_ == 0 && !std::isspace(static_cast<unsigned char>(c))) head_line_ = line;
    head_ += c;
  }

  void enter(std::size_t line) {
    inside_ = classify(on_one_line(head_));
    if (inside_ == Brace::kScope) {
      start_head();
    } else {
      inner_depth_ = 1;
      if (head_line_ == 0) head_line_ = line;
    }
  }

  void leave(std::size_t line) {
    if (inside_ == Brace::kFunction) {
      check_length(line - head_line_ + 1);
      start_head();
    } else {
      head_ += "{}";
    }
    inside_ = Brace::kScope;
  }

  void check_length(std::size_t length) {
    if (length <= kFunctionLines) return;
    found_.push_back({source_.path, head_line_,
                      "a function of " + std::to_string(length) + " lines; the limit is " +
                          std::to_string(kFunctionLines) + ": move a step into a function",
                      ""});
  }

  const Source& source_;
  Violations found_;
  std::string head_;
  std::size_t head_line_ = 0;
  Brace inside_ = Brace::kScope;
  int inner_depth_ = 0;
};

}  // namespace

Violations check_sizes(const Source& source) {
  Violations found;
  if (!source.is_code()) return found;
  std::size_t limit = source.is_header() ? kHeaderLines : kSourceLines;
  if (source.lines.size() > limit) {
    found.push_back({source.path, limit + 1,
                     std::to_string(source.lines.size()) + " lines; the limit of a " +
                         (source.is_header() ? "header" : "source") + " is " +
                         std::to_string(limit) + ": split it by purpose",
                     ""});
  }
  Violations functions = FunctionMeter(source).run();
  found.insert(found.end(), functions.begin(), functions.end());
  return found;
}

}  // namespace shardproof::tidy
