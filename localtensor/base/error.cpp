// Implements error.h.
#include "shardproof/localtensor/base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "shardproof/localtensor/base/per_thread.h"

namespace shardproof {
namespace {

std::string placed(const std::string& message, const Where& where) {
  const std::string place = to_string(where);
  return place.empty() ? message : place + ": " + message;
}

// Returns the edit distance, in three rows of the dynamic program. Insertions, deletions,
// replacements and swaps of neighbours each cost 1: swapped letters are the commonest typing error
// and should not count twice. Example: edit_distance("shpae", "shape") is 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// Returns "mlp.json:6:42: /tensors/w1". Editors and CI jump to places of this form.
std::string place_in_file(const Where& where) {
  std::string out =
      fmt::format("{}:{}:{}: {}", where.file, where.file_line, where.file_column,
                  where.line > 0 ? fmt::format("{}/{}", where.path, where.line - 1) : where.path);
  if (where.path.empty()) out += "/";
  if (where.line > 0) {
    const std::string_view last = std::string_view(where.path).substr(where.path.rfind('/') + 1);
    const bool named = last == "program" || last == "truth";
    out += fmt::format(", line {} of the {}", where.line, named ? last : "listing");
  }
  return where.column > 0 ? fmt::format("{}, column {}", out, where.column) : out;
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

// A global is safe here: the text is set before anything can fail, and read once, before the exit.
std::string& repeat_command() {
  static const PerThread<std::string> command;  // each thread runs a case of its own
  return command.get();
}

}  // namespace

std::string to_string(const Where& where) {
  if (where.file_line > 0) return place_in_file(where);
  std::string rest = where.path;
  if (where.line > 0) rest += fmt::format("{}line {}", rest.empty() ? "" : " ", where.line);
  if (where.column > 0) rest += fmt::format("{}column {}", rest.empty() ? "" : ", ", where.column);
  if (where.file.empty() || rest.empty()) return where.file + rest;
  return where.file + ": " + rest;
}

Error::Error(ErrorKind kind, std::string message, Where where)
    : std::runtime_error(placed(message, where)),
      kind_(kind),
      message_(std::move(message)),
      where_(std::move(where)) {}

Error Error::inside(const Where& outer) const {
  Where place = where_;
  if (place.file.empty()) place.file = outer.file;
  // A line counts within its path and a column within its line, so neither is valid in another one.
  if (place.path.empty()) place.path = outer.path;
  if (place.path == outer.path && place.line == 0) {
    place.line = outer.line;
    if (place.column == 0) place.column = outer.column;
  }
  if (place.file_line == 0 && place.file == outer.file) {
    place.file_line = outer.file_line;
    place.file_column = outer.file_column;
  }
  return Error(kind_, message_, std::move(place));
}

void NearestName::offer(std::string_view candidate) {
  const size_t allowed = std::max<size_t>(1, (std::max(word_.size(), candidate.size()) + 1) / 3);
  const size_t distance = edit_distance(in_lower_case(word_), in_lower_case(candidate));
  // A candidate whose distance is the word's length has no letter in common with it.
  if (distance > allowed || distance >= word_.size() || distance >= distance_) return;
  distance_ = distance;
  best_ = candidate;
}

std::string NearestName::hint() const {
  return best_.empty() ? "" : fmt::format("; did you mean \"{}\"?", best_);
}

void set_repeat_command(std::string command) { repeat_command() = std::move(command); }

void internal_failure(const char* file, int line, const char* condition,
                      const std::string& message) {
  std::fflush(stdout);
  std::string text = fmt::format("shardproof: internal error at {}:{}: {}\n  {}\n", file, line,
                                 condition, message);
  text += "  this is a bug of shardproof, not of the scenario; please report it\n";
  if (!repeat_command().empty()) text += fmt::format("  repeat  {}\n", repeat_command());
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  // No destructors: after a broken invariant they may hang or hide the first failure.
  std::_Exit(3);
}

}  // namespace shardproof
