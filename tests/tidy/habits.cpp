// Implements check_habits: each habit is a pattern, the files it is checked in, and a message.
#include <array>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

bool blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

bool is_room(const Source& source) { return room_position(source.room()) >= 0; }

bool below_cli(const Source& source) { return is_room(source) && source.room() != "cli"; }

bool may_ask_for_a_backend(const Source& source) {
  return source.path.starts_with("backends/") || source.path.starts_with("ops/cuda/");
}

void check_header(const Source& source, Violations& found) {
  if (source.text.find("#pragma once") == std::string::npos) {
    found.push_back({source.path, 1, "the header has no #pragma once; write it", ""});
  }
  if (is_room(source)) return;  // check_file_openings is stricter there
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    if (blank(line) || line.starts_with("#pragma once")) continue;
    if (!line.starts_with("//") && !line.starts_with("/*")) {
      found.push_back(
          {source.path, i + 1, "the header does not open with a comment; write what it is", ""});
    }
    return;
  }
}

// A pattern of code (comments and literals are blank), the files it is checked in, the message.
struct Habit {
  const char* pattern;
  bool (*applies)(const Source&);
  const char* message;
};

const std::array<Habit, 6> kHabits = {{
    {"\\b(secure_)?getenv\\b|\\benviron\\b", below_cli,
     "getenv below cli; read the environment in cli and pass the value on"},
    {"\\brandom_device\\b", below_cli, "random_device makes runs differ; draw from the run's seed"},
    {"\\busing\\s+namespace\\b", [](const Source& s) { return s.is_header(); },
     "using namespace in a header; write the qualified name"},
    {"^\\s*#\\s*(if|ifdef|ifndef|elif)\\b.*(MPI|CUDA|NCCL|BACKEND)",
     [](const Source& s) { return is_room(s) && !may_ask_for_a_backend(s); },
     "a conditional on a backend in shared code; let CMake list one file or another"},
    {"^\\s*#\\s*define\\s+(?!SP_CHECK|SP_UNREACHABLE)", is_room,
     "a macro; write a function (the only macros are SP_CHECK and SP_UNREACHABLE)"},
    {"^\\s*#\\s*ifndef\\s+\\w+_H_?\\s*$", [](const Source&) { return true; },
     "an include guard; write #pragma once"},
}};

void check_code_habits(const Source& source, Violations& found) {
  for (const Habit& habit : kHabits) {
    if (!habit.applies(source)) continue;
    const std::regex pattern(habit.pattern);
    std::size_t line = 1;
    std::size_t begin = 0;
    while (begin < source.code.size()) {
      std::size_t end = std::min(source.code.find('\n', begin), source.code.size());
      if (std::regex_search(source.code.substr(begin, end - begin), pattern)) {
        found.push_back({source.path, line, habit.message, ""});
      }
      begin = end + 1;
      ++line;
    }
  }
}

// Code is ASCII. Prose may hold other letters, but no invisible characters.
const char* byte_error(const Source& source, const std::string& line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    auto byte = static_cast<unsigned char>(line[i]);
    if (byte == '\r') return "a carriage return; end the line with \\n alone";
    if (byte < 0x80) continue;
    if (source.is_code() || source.is_cmake())
      return "a byte that is not ASCII; write an escape or ASCII";
    std::string_view rest = std::string_view(line).substr(i);
    for (std::string_view hidden :
         {"\xc2\xa0", "\xe2\x80\x8b", "\xe2\x80\x8c", "\xe2\x80\x8d", "\xe2\x80\x8e",
          "\xe2\x80\x8f", "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad",
          "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9",
          "\xef\xbb\xbf"}) {
      if (rest.starts_with(hidden)) return "an invisible character; delete it";
    }
  }
  return nullptr;
}

void check_text(const Source& source, Violations& found) {
  // Split, so that this file does not violate its own rule.
  static const std::regex kUnfinished(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X)\\b");
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    if (std::regex_search(line, kUnfinished)) {
      found.push_back({source.path, i + 1, "unfinished work; finish it or file an issue", ""});
    }
    if (const char* message = byte_error(source, line)) {
      found.push_back({source.path, i + 1, message, ""});
    }
    bool script = source.is_code() || source.is_cmake();
    if (script && !line.empty() && (line.back() == ' ' || line.find('\t') != std::string::npos)) {
      found.push_back(
          {source.path, i + 1, "a tab, or a blank at the end of the line; delete it", ""});
    }
  }
  if (!source.text.empty() && source.text.back() != '\n') {
    found.push_back(
        {source.path, source.lines.size(), "the last line has no line end; add it", ""});
  }
}

}  // namespace

Violations check_habits(const Source& source) {
  Violations found;
  if (source.is_header()) check_header(source, found);
  if (source.is_code()) check_code_habits(source, found);
  check_text(source, found);
  return found;
}

}  // namespace shardproof::tidy
