#include <array>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

bool blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

bool is_room(const Source& source) { return place_in_tower(source.room()) >= 0; }

bool below_cli(const Source& source) { return is_room(source) && source.room() != "cli"; }

bool may_ask_for_a_backend(const Source& source) {
  return source.path.starts_with("backends/") || source.path.starts_with("ops/cuda/");
}

void check_opening(const Source& source, Violations& found) {
  if (source.text.find("#pragma once") == std::string::npos) {
    found.push_back({source.path, 1, "a header needs #pragma once"});
  }
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    if (blank(line) || line.starts_with("#pragma once")) continue;
    if (!line.starts_with("//") && !line.starts_with("/*")) {
      found.push_back({source.path, i + 1, "a header opens with a comment: what the thing is"});
    }
    return;
  }
}

// A pattern looked for in code (comments and literals blanked), and where it is out of place.
struct Habit {
  const char* pattern;
  bool (*applies)(const Source&);
  const char* message;
};

const std::array<Habit, 6> kHabits = {{
    {"\\b(secure_)?getenv\\b|\\benviron\\b", below_cli, "no getenv below cli"},
    {"\\brandom_device\\b", below_cli, "a run is a function of its seed: no random_device"},
    {"\\busing\\s+namespace\\b", [](const Source& s) { return s.is_header(); },
     "no using namespace in a header"},
    {"^\\s*#\\s*(if|ifdef|ifndef|elif)\\b.*(MPI|CUDA|NCCL|BACKEND)",
     [](const Source& s) { return is_room(s) && !may_ask_for_a_backend(s); },
     "shared code asks for no backend; CMake chooses a file"},
    {"^\\s*#\\s*define\\s+(?!SP_CHECK|SP_UNREACHABLE)", is_room,
     "the macros are SP_CHECK and SP_UNREACHABLE"},
    {"^\\s*#\\s*ifndef\\s+\\w+_H_?\\s*$", [](const Source&) { return true; }, "use #pragma once"},
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
        found.push_back({source.path, line, habit.message});
      }
      begin = end + 1;
      ++line;
    }
  }
}

// Code is plain ASCII; prose may use its letters, but nothing invisible.
const char* judge_bytes(const Source& source, const std::string& line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    auto byte = static_cast<unsigned char>(line[i]);
    if (byte == '\r') return "a carriage return";
    if (byte < 0x80) continue;
    if (source.is_code() || source.is_cmake()) return "a byte that is not ASCII";
    std::string_view rest = std::string_view(line).substr(i);
    for (std::string_view hidden :
         {"\xc2\xa0", "\xe2\x80\x8b", "\xe2\x80\x8c", "\xe2\x80\x8d", "\xe2\x80\x8e",
          "\xe2\x80\x8f", "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad",
          "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9",
          "\xef\xbb\xbf"}) {
      if (rest.starts_with(hidden)) return "an invisible character";
    }
  }
  return nullptr;
}

void check_text(const Source& source, Violations& found) {
  // Split, so that this file may name them.
  static const std::regex kUnfinished(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X)\\b");
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    if (std::regex_search(line, kUnfinished)) {
      found.push_back(
          {source.path, i + 1, "unfinished work is finished or written down as an issue"});
    }
    if (const char* message = judge_bytes(source, line)) {
      found.push_back({source.path, i + 1, message});
    }
    bool script = source.is_code() || source.is_cmake();
    if (script && !line.empty() && (line.back() == ' ' || line.find('\t') != std::string::npos)) {
      found.push_back({source.path, i + 1, "a tab or a blank at the end of the line"});
    }
  }
  if (!source.text.empty() && source.text.back() != '\n') {
    found.push_back({source.path, source.lines.size(), "the last line has no end"});
  }
}

}  // namespace

Violations check_habits(const Source& source) {
  Violations found;
  if (source.is_header()) check_opening(source, found);
  if (source.is_code()) check_code_habits(source, found);
  check_text(source, found);
  return found;
}

}  // namespace shardproof::tidy
