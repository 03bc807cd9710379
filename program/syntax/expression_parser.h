// ExpressionParser: reads one expression from a Lexer by precedence. It recurses over nesting
// alone, which is capped, and refuses trees higher than kMaxHeight, which a chain `a + a + a ..`
// makes without nesting, so that everybody may walk a tree by recursion.
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

  Expr expression();
  // The next token must be a name; `h{i}` takes its holes with it.
  NameTemplate name_template();
  // The next two tokens must be a name and `(`.
  Expr call();
  // From behind `[` to behind `]`.
  std::vector<IndexItem> index_items();
  std::vector<PlacementText> placements();

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
  Tree postfix();
  Tree primary();
  Tree word();
  Tree number();
  Tree quoted();
  Tree parenthesis();
  Tree list();
  Tree call_tree();
  Tree value();
  Tree placed();
  IndexItem index_item(int& height);
  std::vector<IndexItem> items(int& height);
  NameTemplate name_template(int& height);
  void hole(NameTemplate& name, int& height);
  bool placements_follow();
  static std::vector<PlacementText> parsed_placements(const RawText& raw);

  Lexer& lexer_;
  int nesting_ = 0;
  bool in_hole_ = false;
};

}  // namespace shardproof::detail
