// Lexer: cuts one line into tokens, one at a time. Names with braces and quoted text are not
// tokens: an expression may be inside them, so the parser reads their pieces with the raw calls.
// Holds a view: the line must outlive the lexer.
//
//   name     a letter or "_", then letters, digits and "_"
//   integer  digits                              real  digits with a fraction or an exponent
//   quote    '                                   end   the end of the line, or "#" (a comment)
//   symbol   ** // <= >= == != ...   or any other single character
#pragma once

#include <string>
#include <string_view>

#include "shardproof/program/syntax/ast.h"

namespace shardproof::detail {

enum class TokenKind { end, name, integer, real, quote, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  size_t offset = 0;
  SourceLocation place;
  bool is(std::string_view symbol_or_word) const {
    return (kind == TokenKind::symbol || kind == TokenKind::name) && text == symbol_or_word;
  }
};

// Returns `"gelu"` or `the end of the line`, for "expected .., found ..".
std::string describe(const Token& token);

// Throw Error(bad_input) at a place: with a message, or with "expected .., found ..".
[[noreturn]] void fail(SourceLocation place, std::string message);
[[noreturn]] void fail_expected(std::string_view expected, const Token& found);

// A part of the line that another parser reads; `place` is that of its first character.
struct RawText {
  std::string_view text;
  SourceLocation place;
};

class Lexer {
 public:
  enum class Comments { allowed, refused };
  // Throws Error(bad_input) for control characters. `line` is the line number in errors and
  // tokens; 0 outside of listings.
  Lexer(std::string_view text, int line, Comments comments);

  const Token& peek();  // the next token
  Token consume();      // consumes the next token
  // Consumes the next token if it is this one; returns true if so.
  bool accept(std::string_view symbol_or_word);
  // Consumes the next token. Throws Error(bad_input) "expected `expected`, found .." if it is
  // another.
  Token expect(std::string_view symbol, std::string_view expected);
  // Returns the text from the next token on.
  std::string_view rest();
  // True if the token after the next one is this character, not a longer symbol that begins with
  // it.
  bool second_is(char symbol);

  // Raw calls: they read directly after the last consumed token.
  bool at(char c);  // true if this is the next character
  std::string_view consume_name_characters();
  // Consumes text up to a quote or a brace.
  std::string_view consume_quoted();
  // Consumes one argument: the text from the next token up to a `,` `)` `]`, a comment or the end
  // of the line.
  RawText consume_argument();

 private:
  Token lex(size_t from) const;
  Token number_at(size_t from) const;
  SourceLocation place_at(size_t offset) const {
    return {line_, static_cast<int>(offset - hidden_) + 1};
  }
  size_t skip_spaces(size_t from) const;
  void go_to(size_t offset);

  std::string_view text_;
  int line_;
  Comments comments_;
  size_t next_ = 0;    // offset after the last consumed token
  size_t hidden_ = 0;  // UTF-8 continuation bytes before next_; columns count characters
  Token peeked_;
  bool has_peeked_ = false;
};

}  // namespace shardproof::detail
