// Lexer: cuts one line into tokens when asked for the next one. Names with holes and quoted text
// are not tokens: the parser reads their pieces with the raw calls, since an expression may stand
// between two of them. Works on a view: the line must outlive it.
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

// `"gelu"`, `the end of the line`: for "expected .., found ..".
std::string describe(const Token& token);

[[noreturn]] void fail(SourceLocation place, std::string message);
[[noreturn]] void fail_expected(std::string_view expected, const Token& found);

// A stretch of the line that somebody else parses; `place` is that of its first character.
struct RawText {
  std::string_view text;
  SourceLocation place;
};

class Lexer {
 public:
  enum class Comments { allowed, refused };
  // Refuses control characters at once. `line` is the number that places carry, 0 outside of
  // listings.
  Lexer(std::string_view text, int line, Comments comments);

  const Token& peek();
  Token take();
  // Takes the next token when it is this one.
  bool accept(std::string_view symbol_or_word);
  Token expect(std::string_view symbol, std::string_view expected);
  // Whether the token after the next one is this character and no longer symbol begins with it.
  bool second_is(char symbol);

  // Raw: they read on directly behind the last token taken.
  bool at(char c);
  std::string_view take_name_characters();
  // Up to a quote or a brace, which is left.
  std::string_view take_quoted();
  // From the next token up to the `,` `)` `]` that ends an argument, a comment or the end of the
  // line.
  RawText take_argument();

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
  size_t next_ = 0;    // behind the last token taken
  size_t hidden_ = 0;  // bytes before next_ that continue a character: columns count characters
  Token peeked_;
  bool has_peeked_ = false;
};

}  // namespace shardproof::detail
