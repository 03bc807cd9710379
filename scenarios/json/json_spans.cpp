// Implements json_spans.h: a scanner of valid JSON that records where each value begins and ends.
// Keys are compared with pointers after their escapes are decoded by read_json's rules.
#include "shardproof/scenarios/json/json_spans.h"

#include <algorithm>
#include <utility>

#include "shardproof/scenarios/json/json_tree.h"

namespace shardproof {
namespace {

// Scans one value after the other. The depth is at most kMaxJsonDepth, because the text is valid.
class SpanScanner {
 public:
  SpanScanner(std::string_view text, std::map<std::string, JsonSpan>& spans)
      : text_(text), spans_(spans) {}

  void scan() {
    skip_space();
    scan_value("", at_);
  }

 private:
  void skip_space() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (rest.starts_with("/*")) {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else if (rest.starts_with("\xef\xbb\xbf")) {
        at_ += 3;  // byte order mark
      } else if (std::string_view(" \t\r\n").find(rest[0]) != std::string_view::npos) {
        ++at_;
      } else {
        return;
      }
    }
  }
  bool take(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  std::string_view take_string() {
    const size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    return text_.substr(begin, at_ - begin);
  }
  void scan_members(const std::string& pointer) {
    ++at_;
    while (!take('}') && at_ < text_.size()) {
      const size_t key_begin = at_;
      const std::string key = read_json(take_string()).text;
      if (!take(':')) return;
      skip_space();
      scan_value(pointer + pointer_step(key), key_begin);
      take(',');
      skip_space();
    }
  }
  void scan_items(const std::string& pointer) {
    ++at_;
    for (size_t i = 0; !take(']') && at_ < text_.size(); ++i) {
      scan_value(pointer + "/" + std::to_string(i), at_);
      take(',');
      skip_space();
    }
  }
  void scan_value(const std::string& pointer, size_t key) {
    const size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '{') {
      scan_members(pointer);
    } else if (at_ < text_.size() && text_[at_] == '[') {
      scan_items(pointer);
    } else if (at_ < text_.size() && text_[at_] == '"') {
      take_string();
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\r\n/", at_), text_.size());
      if (at_ == begin && at_ < text_.size()) ++at_;  // never stay
    }
    spans_[pointer] = {begin, at_, key};
  }

  std::string_view text_;
  std::map<std::string, JsonSpan>& spans_;
  size_t at_ = 0;
};

}  // namespace

std::pair<int, int> line_and_column(std::string_view text, size_t byte) {
  int line = 1, column = 1;
  for (size_t i = 0; i < std::min(byte, text.size()); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {  // the first of a character
      ++column;
    }
  }
  return {line, column};
}

JsonSpans::JsonSpans(std::string_view text) : text_(text) { SpanScanner(text, spans_).scan(); }

std::optional<JsonSpan> JsonSpans::find(const std::string& pointer) const {
  const auto found = spans_.find(pointer);
  if (found == spans_.end()) return std::nullopt;
  return found->second;
}

std::optional<JsonSpan> JsonSpans::last_member(const JsonSpan& object) const {
  std::optional<JsonSpan> last;  // values within the last member end before it
  for (const auto& [pointer, span] : spans_)
    if (span.key > object.begin && span.end < object.end && (!last || span.end > last->end))
      last = span;
  return last;
}

// Returns the offset of a character of a string, from 1; an escape is one character.
size_t JsonSpans::column_in_string(const JsonSpan& span, int column) const {
  const std::string_view quoted = text_.substr(span.begin, span.end - span.begin);
  if (!quoted.starts_with('"') || quoted.find('$') != std::string_view::npos) return span.begin;
  size_t at = 1;
  for (int i = 1; i < column && at + 1 < quoted.size(); ++i) {
    if (quoted[at] == '\\') {
      at += quoted[at + 1] == 'u' ? 6 : 2;
      continue;
    }
    for (++at; at < quoted.size() && (static_cast<unsigned char>(quoted[at]) & 0xc0) == 0x80;) ++at;
  }
  return span.begin + std::min(at, quoted.size());
}

Where JsonSpans::placed(Where where) const {
  std::string pointer = where.path;
  if (where.line > 0) pointer += "/" + std::to_string(where.line - 1);
  std::optional<JsonSpan> span = find(pointer);
  const bool exact = span.has_value();
  while (!span && !pointer.empty()) {
    pointer.resize(pointer.rfind('/'));
    span = find(pointer);
  }
  if (!span) return where;
  const bool in_text = exact && where.column > 0;
  const size_t byte = in_text ? column_in_string(*span, where.column)
                              : (exact && where.line == 0 ? span->key : span->begin);
  std::tie(where.file_line, where.file_column) = line_and_column(text_, byte);
  return where;
}

}  // namespace shardproof
