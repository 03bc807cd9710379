// Implements lexer.h.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/lexer.h"
#include "shardproof/program/value/names.h"

namespace shardproof::detail {
namespace {

constexpr size_t kShownBytes = 40;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns at most kShownBytes bytes; a UTF-8 character is never cut in two.
std::string shortened(std::string_view text) {
  if (text.size() <= kShownBytes) return std::string(text);
  size_t end = kShownBytes;
  while (end > 0 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

void refuse_control_characters(std::string_view text, int line) {
  if (std::none_of(text.begin(), text.end(), is_control)) return;
  size_t hidden = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (continues_character(text[i])) ++hidden;
    if (!is_control(text[i])) continue;
    const auto byte = static_cast<unsigned char>(text[i]);
    const SourceLocation place{line, static_cast<int>(i - hidden) + 1};
    if (byte == '\t') fail(place, "expected spaces, found a tab");
    if (byte == '\n' || byte == '\r') fail(place, "expected one line, found a line break");
    fail(place, fmt::format("expected text, found the control character {}", byte));
  }
}

// Hints for mistakes that are common among users of Python.
std::string_view hint(std::string_view expected, const Token& found) {
  if (found.is("\"")) return "; text is in single quotes, placements have none";
  if (found.is("^")) return "; a power is written x ** 2";
  if (found.is("&") || found.is("|") || found.is("~"))
    return "; write and, or, not between numbers, logical_and(a, b), logical_or(a, b) or "
           "logical_not(a) of tensors";
  if (found.is("!")) return "; write not";
  if (found.is(";")) return "; write one statement a line";
  if (found.is("{") && expected == "a value")
    return "; a placement is written dp:S(0) tp:R, a list [a, b]";
  if (found.is("for")) return "; a list has no for: write a for block, or the items";
  if (found.is("if") && expected.starts_with("an operator"))
    return "; write where(c, a, b), or an if block";
  if (found.is(":") && expected.starts_with("\",\" or \")\""))
    return "; a slice is written x[0:4], placements on two axes dp:S(0) tp:S(0)";
  if (found.is("as")) return "; \"as\" and its placements end a line: y = x @ w as tp:P(sum)";
  const bool begins_value = found.kind != TokenKind::end && found.kind != TokenKind::symbol;
  if (expected.starts_with("\",\" or") && begins_value) return "; write a comma before it";
  return "";
}

}  // namespace

std::string describe(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the line";
  return fmt::format("\"{}\"", shortened(token.text));
}

void fail(SourceLocation place, std::string message) {
  throw Error(ErrorKind::bad_input, std::move(message), Where{"", "", place.line, place.column});
}

void fail_expected(std::string_view expected, const Token& found) {
  fail(found.place,
       fmt::format("expected {}, found {}{}", expected, describe(found), hint(expected, found)));
}

Lexer::Lexer(std::string_view text, int line, Comments comments)
    : text_(text), line_(line), comments_(comments) {
  refuse_control_characters(text, line);
}

size_t Lexer::skip_spaces(size_t from) const {
  while (from < text_.size() && text_[from] == ' ') ++from;
  return from;
}

Token Lexer::number_at(size_t from) const {
  size_t end = from;
  const auto digits = [&] {
    while (end < text_.size() && is_digit(text_[end])) ++end;
  };
  TokenKind kind = TokenKind::integer;
  digits();
  if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
    kind = TokenKind::real;
    ++end;
    digits();
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    size_t power = end + 1;
    if (power < text_.size() && (text_[power] == '+' || text_[power] == '-')) ++power;
    if (power < text_.size() && is_digit(text_[power])) {
      kind = TokenKind::real;
      end = power;
      digits();
    }
  }
  return {kind, text_.substr(from, end - from), from, place_at(from)};
}

Token Lexer::lex(size_t from) const {
  from = skip_spaces(from);
  const SourceLocation place = place_at(from);
  if (from >= text_.size()) return {TokenKind::end, {}, text_.size(), place};
  const char c = text_[from];
  if (c == '#' && comments_ == Comments::allowed) return {TokenKind::end, {}, text_.size(), place};
  if (is_digit(c)) return number_at(from);
  size_t end = from + 1;
  TokenKind kind = TokenKind::symbol;
  if (c == '\'') {
    kind = TokenKind::quote;
  } else if (is_name_start(c)) {
    kind = TokenKind::name;
    while (end < text_.size() && is_name_character(text_[end])) ++end;
  } else {
    const char second = end < text_.size() ? text_[end] : '\0';
    const bool is_long = second == '=' ? c == '<' || c == '>' || c == '=' || c == '!'
                                       : second == c && (c == '*' || c == '/');
    if (is_long) end = from + 2;
    if (c == '.' && text_.substr(from, 3) == "...") end = from + 3;
    while (end < text_.size() && continues_character(text_[end])) ++end;
  }
  return {kind, text_.substr(from, end - from), from, place};
}

const Token& Lexer::peek() {
  if (!has_peeked_) peeked_ = lex(next_);
  has_peeked_ = true;
  return peeked_;
}

void Lexer::go_to(size_t offset) {
  next_ = offset;
  has_peeked_ = false;
}

Token Lexer::consume() {
  const Token token = peek();
  go_to(token.offset + token.text.size());
  return token;
}

bool Lexer::accept(std::string_view symbol_or_word) {
  if (!peek().is(symbol_or_word)) return false;
  consume();
  return true;
}

Token Lexer::expect(std::string_view symbol, std::string_view expected) {
  if (!peek().is(symbol)) fail_expected(expected, peek());
  return consume();
}

std::string_view Lexer::rest() { return text_.substr(peek().offset); }

bool Lexer::second_is(char symbol) {
  const Token& first = peek();
  const size_t at = skip_spaces(first.offset + first.text.size());
  return at < text_.size() && text_[at] == symbol && lex(at).text.size() == 1;
}

bool Lexer::at(char c) { return next_ < text_.size() && text_[next_] == c; }

std::string_view Lexer::consume_name_characters() {
  size_t end = next_;
  while (end < text_.size() && is_name_character(text_[end])) ++end;
  const std::string_view taken = text_.substr(next_, end - next_);
  go_to(end);
  return taken;
}

std::string_view Lexer::consume_quoted() {
  size_t end = next_;
  while (end < text_.size() && text_[end] != '\'' && text_[end] != '{' && text_[end] != '}') {
    if (continues_character(text_[end])) ++hidden_;
    ++end;
  }
  const std::string_view taken = text_.substr(next_, end - next_);
  go_to(end);
  return taken;
}

RawText Lexer::consume_argument() {
  const Token& first = peek();
  const SourceLocation place = first.place;
  if (first.kind == TokenKind::end) return {{}, place};
  const size_t from = first.offset;
  size_t end = from, depth = 0;
  for (; end < text_.size(); ++end) {
    const char c = text_[end];
    if (c == '#' && comments_ == Comments::allowed) break;
    if (depth == 0 && (c == ',' || c == ')' || c == ']')) break;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  std::string_view taken = text_.substr(from, end - from);
  taken = taken.substr(0, taken.find_last_not_of(' ') + 1);
  for (const char c : taken) hidden_ += continues_character(c) ? 1 : 0;
  go_to(from + taken.size());
  return {taken, place};
}

}  // namespace shardproof::detail
