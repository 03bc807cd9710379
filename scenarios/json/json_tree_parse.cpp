// Implements read_json of json_tree.h with the SAX parser of nlohmann-json. Steps: check
// UTF-8, parse, build the tree, and turn each parse error into an Error with line and column.
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_spans.h"
#include "shardproof/scenarios/json/json_tree.h"

namespace shardproof {
namespace {

[[noreturn]] void refuse(std::string_view text, size_t byte, std::string message,
                         std::string pointer = "") {
  Where where{.path = std::move(pointer)};
  std::tie(where.file_line, where.file_column) = line_and_column(text, byte);
  throw Error(ErrorKind::bad_input, std::move(message), std::move(where));
}

// Returns the bytes of the UTF-8 character at `at`; 0 if it is malformed. Overlong forms,
// surrogates and values above U+10FFFF are malformed.
size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  const auto follows = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void check_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte > 0 && byte < 0x80) {
      ++at;  // fast path: most files are ASCII
      continue;
    }
    const size_t length = character_length(text, at);
    const bool marks_utf16 =
        at == 0 && (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"));
    if (marks_utf16) refuse(text, at, "expected UTF-8, found UTF-16; save the file as UTF-8");
    if (length == 0)
      refuse(
          text, at,
          fmt::format("expected UTF-8, found byte 0x{:02x}", static_cast<unsigned char>(text[at])));
    // nlohmann's parser would stop at a zero byte.
    if (text[at] == '\0') refuse(text, at, "expected text, found a zero byte");
    at += length;
  }
}

// Builds the tree from SAX events without recursion. The events have no positions, but the lexer
// has just read the reported token, so the token ends at `cursor`.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, const char* const& cursor) : text_(text), cursor_(cursor) {}
  JsonTree take() { return std::move(root_); }

  bool null() override { return put({}); }
  bool boolean(bool value) override {
    JsonTree tree;
    tree.kind = JsonKind::boolean;
    tree.boolean = value;
    return put(std::move(tree));
  }
  bool number_integer(int64_t value) override {
    JsonTree tree;
    tree.kind = JsonKind::integer;
    tree.integer = value;
    return put(std::move(tree));
  }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) refuse_integer(std::to_string(value));
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& raw) override {
    if (raw.find_first_of(".eE") == std::string::npos) refuse_integer(raw);
    JsonTree tree;
    tree.kind = JsonKind::real;
    tree.real = value;
    return put(std::move(tree));
  }
  bool string(std::string& value) override { return put(JsonTree::of(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(JsonKind::object); }
  bool start_array(size_t) override { return open(JsonKind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& key) override {
    if (!open_.back().keys.insert(key).second)
      refuse(text_, before(key.size() + 2),
             fmt::format("key {} occurs twice in one object", quoted_json(key)),
             pointer() + pointer_step(key));
    key_ = std::move(key);
    return true;
  }
  bool parse_error(size_t byte, const std::string& token,
                   const nlohmann::json::exception& e) override {
    // The message is "[json.exception...] parse error at line 1, column 2: syntax error while
    // parsing value - unexpected ...". Only the last part is shown.
    std::string what = e.what();
    byte = std::min(byte, text_.size() + 1);  // after a comment, nlohmann counts the end twice
    if (what.find("number overflow") != std::string::npos)
      refuse(text_, byte, "expected a number in the range of a double, found a larger one",
             pointer_of_value());
    const size_t matter = what.find("syntax error");
    if (matter != std::string::npos) what = what.substr(matter);
    const size_t dash = what.find(" - ");
    if (dash != std::string::npos) what = what.substr(dash + 3);
    for (char& c : what)
      if (c == '\n') c = ' ';
    if (what.ends_with("expected '}'") || what.ends_with("expected ']'"))
      what.insert(what.size() - 3, "',' or ");  // a comma that is missing is more frequent
    if (what.starts_with("invalid string") &&
        (what.find("missing closing quote") != what.npos || token.ends_with("<U+000A>") ||
         token.ends_with("<U+000D>")))
      refuse(text_, opening_quote(byte),
             "JSON syntax: expected a closing quote on the line of this string, found none",
             pointer());
    byte = std::max(byte, length_of(what, token)) - length_of(what, token) + 1;
    if (what.size() > 240) what = what.substr(0, 240) + "...";
    size_t at = byte == 0 ? 0 : byte - 1;
    if (what.starts_with("invalid literal")) at = word_begin(at);
    refuse(text_, at, fmt::format("JSON syntax: {}{}", what, hint(at)), pointer());
  }

 private:
  // Returns the JSON pointer of the innermost list or object that is not finished.
  std::string pointer() const {
    std::string out;
    for (size_t i = 1; i < open_.size(); ++i) {
      const JsonTree& parent = *open_[i - 1].tree;
      out += parent.kind == JsonKind::object ? pointer_step(parent.keys.back())
                                             : "/" + std::to_string(parent.items.size() - 1);
    }
    return out;
  }
  // Returns the JSON pointer of the value that is being read.
  std::string pointer_of_value() const {
    if (open_.empty()) return "";
    const JsonTree& parent = *open_.back().tree;
    return pointer() + (parent.kind == JsonKind::object
                            ? pointer_step(key_)
                            : "/" + std::to_string(parent.items.size()));
  }
  static bool continues_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  size_t word_begin(size_t at) const {
    while (at > 0 && at < text_.size() && continues_word(text_[at - 1])) --at;
    return at;
  }
  // Returns where the string begins that is open before this byte. A quote after an odd number of
  // backslashes belongs to the string.
  size_t opening_quote(size_t byte) const {
    size_t at = std::min(byte, text_.size());
    while (at > 0) {
      at = text_.find_last_of('"', at - 1);
      if (at == std::string_view::npos) return byte;
      const size_t before = at == 0 ? std::string_view::npos : text_.find_last_not_of('\\', at - 1);
      const size_t backslashes = at - (before == std::string_view::npos ? 0 : before + 1);
      if (backslashes % 2 == 0) return at;
    }
    return byte;
  }
  // True if the text has a word and a colon there, as in {version: 1}.
  bool is_bare_key(size_t at) const {
    size_t end = at;
    while (end < text_.size() && continues_word(text_[end])) ++end;
    const size_t next = text_.find_first_not_of(" \t", end);
    return end > at && next != std::string_view::npos && text_[next] == ':';
  }
  // Returns a hint for common mistakes, by the character at the error and the one before it.
  std::string_view hint(size_t at) const {
    if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos)
      return "; the file is empty: shardproof new mlp prints a scenario to start from";
    const char found = at < text_.size() ? text_[at] : '\0';
    if (at > 0 && text_[at - 1] == '"' && continues_word(found))
      return "; the string before it ends here: is the quote that closes an earlier string "
             "missing? "
             "A quote in a string is written \\\"";
    const size_t last =
        at == 0 ? std::string_view::npos : text_.find_last_not_of(" \t\r\n", at - 1);
    if (last == std::string_view::npos && found != '\0')
      return "; JSON begins with { or [: shardproof new mlp prints a scenario to start from";
    const bool behind_comma = last != std::string_view::npos && text_[last] == ',';
    if ((found == '}' || found == ']') && behind_comma)
      return "; JSON has no comma after the last entry";
    if (found == '#') return "; comments are written // or /* */";
    if (found == '\'') return "; JSON strings are in double quotes";
    if (found == '(') return "; a list is written in [ ]";
    if (is_bare_key(at)) return "; keys are in double quotes";
    const size_t sign = text_.find_first_not_of("0123456789 ", at);
    if (sign != std::string_view::npos && (text_[sign] == '*' || text_[sign] == '+'))
      return "; an expression is a string: \"2 * 4\"";
    if (found == 'T' || found == 'F' || found == 'N') return "; JSON writes true, false and null";
    return "";
  }
  // Returns the length of the unexpected token, to report where it begins. nlohmann gives the text
  // of string and number tokens only.
  static size_t length_of(const std::string& what, const std::string& token) {
    if (what.starts_with("unexpected string") || what.starts_with("unexpected number"))
      return token.size();
    if (what.starts_with("unexpected false")) return 5;
    return what.starts_with("unexpected true") || what.starts_with("unexpected null") ? 4 : 1;
  }
  // Returns where the token of this length that ends at the cursor begins.
  size_t before(size_t length) const {
    const auto end = static_cast<size_t>(cursor_ - text_.data());
    return end > length ? end - length : 0;
  }
  [[noreturn]] void refuse_integer(const std::string& raw) {
    // The lexer reads one character past a number.
    refuse(text_, before(raw.size() + 1), "integer " + raw.substr(0, 40) + " does not fit 64 bits",
           pointer_of_value());
  }

  JsonTree* add(JsonTree tree) {
    if (open_.empty()) {
      root_ = std::move(tree);
      return &root_;
    }
    JsonTree& parent = *open_.back().tree;
    if (parent.kind == JsonKind::object) parent.keys.push_back(std::move(key_));
    parent.items.push_back(std::move(tree));
    return &parent.items.back();
  }
  bool put(JsonTree tree) {
    add(std::move(tree));
    return true;
  }
  bool open(JsonKind kind) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth))
      refuse(text_, before(1), fmt::format("more than {} levels of nesting", kMaxJsonDepth),
             pointer());
    JsonTree tree;
    tree.kind = kind;
    open_.push_back({add(std::move(tree)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  // An unfinished list or object. Its address is stable, because only the innermost one grows.
  struct Open {
    JsonTree* tree;
    std::set<std::string> keys;  // for finding duplicates fast
  };

  std::string_view text_;
  const char* const& cursor_;
  JsonTree root_;
  std::vector<Open> open_;
  std::string key_;
};

// Input iterator that stores the lexer's position in `cursor`.
class CountedBytes {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;
  CountedBytes(const char* at, const char** cursor) : at_(at), cursor_(cursor) {}
  const char& operator*() const { return *at_; }
  CountedBytes& operator++() {
    ++at_;
    *cursor_ = at_;
    return *this;
  }
  CountedBytes operator++(int) {
    CountedBytes before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountedBytes& other) const { return at_ == other.at_; }
  bool operator!=(const CountedBytes& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** cursor_;
};

}  // namespace

JsonTree read_json(std::string_view text) {
  check_utf8(text);
  const char* cursor = text.data();
  TreeBuilder builder(text, cursor);
  nlohmann::json::sax_parse(CountedBytes(text.data(), &cursor),
                            CountedBytes(text.data() + text.size(), &cursor), &builder,
                            nlohmann::json::input_format_t::json, true, true);
  return builder.take();
}

}  // namespace shardproof
