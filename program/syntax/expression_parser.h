// ExpressionParser: reads one expression from a Lexer, by precedence climbing (precedence.h).
// Throws Error(limit) for nesting deeper than kMaxNesting and trees higher than kMaxHeight. A chain
// a + a + a makes a high tree without nesting; the limit lets every function walk a tree by
// recursion.
#pragma once

#include <vector>

#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/syntax/lexer.h"

namespace shardproof::detail {

inline constexpr int kMaxNesting = 64;
inline constexpr int kMaxHeight = 256;

class ExpressionParser {
 public:
  explicit ExpressionParser(Lexer& lexer) : lexer_(lexer) {}

  Expr expression();  // reads an expression up to the first token that does not continue it
  // Reads a name with its braces, `h{i}`. Requires that the next token is a name.
  NameTemplate name_template();
  // Reads a call. Requires that the next two tokens are a name and `(`.
  Expr call();
  // Reads the items of an index, from after `[` to after `]`.
  std::vector<IndexItem> index_items();
  std::vector<PlacementText> placements();
  // Throws Error(bad_input) if a dot and a word follow a name that begins a statement, as in
  // dist.all_reduce(x).
  void refuse_dot_in_statement(const NameTemplate& name);

 private:
  struct Tree {
    Expr expr;
    int height = 1;
  };
  class Nest;

  Tree binary(int weakest);
  Tree prefix(int weakest);
  Tree unary(int operand_weakest);
  Tree power();
  // Returns the binary expression of two operands.
  Tree joined(const SourceLocation& start, const Token& symbol, Tree left, Tree right);
  Tree postfix();
  Tree primary();
  Tree word();
  Tree number();
  Tree quoted();
  Tree parenthesis();
  Tree list();
  Tree call_tree();
  // Reads the arguments of a call, from its `(`.
  Tree call_of(const Token& verb);
  Tree value();
  Tree placed();
  IndexItem index_item(int& height);
  std::vector<IndexItem> items(int& height);
  NameTemplate name_template(int& height);
  void braces(NameTemplate& name, int& height);
  // Consumes the words after a dot and returns the text to write in place of them.
  std::string hint_after_dot(const Expr& before, bool whole_line);
  bool placements_follow();
  static std::vector<PlacementText> parsed_placements(const RawText& raw);

  Lexer& lexer_;
  int nesting_ = 0;
  bool in_braces_ = false;
};

}  // namespace shardproof::detail
