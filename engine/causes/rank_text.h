// NumberedText: the expressions and statements of a job's rank programs. change_of
// (change_listings.h) selects the one to change by its number.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/explain/line_text.h"

namespace shardproof {

// A statement with expressions: an assignment, a call, the condition of an `if`, or the bounds of a
// loop.
struct TextStatement {
  const Statement* statement = nullptr;
  size_t listing = 0;
  std::vector<const Expr*> whole = {};   // the value, or the bounds
  std::vector<std::string> loops = {};   // variables of the loops around it
  std::vector<std::string> before = {};  // names that the listing has bound before it
};

// A change of one expression of the text.
struct TextChange {
  int number = 0;
  Expr was, to;
  // The line of the truth that the change follows, and the distance of the changed line from it
  // (0: equal texts). Changes that follow no line of the truth have 0 and 1.
  size_t truth_line = 0;
  double distance = 1;
};

class NumberedText {
 public:
  explicit NumberedText(const Job& job);
  const std::vector<TextStatement>& statements() const { return statements_; }
  // Requires an expression of one of the statements.
  int number_of(const Expr& expr) const { return numbers_.at(&expr); }
  // Returns the line of each expression, by number.
  const std::vector<ListedLine>& lines() const { return lines_; }
  // True if few lines have the text of this one, numbers in names apart. In a program of many equal
  // layers, such a line differs from those of the other layers.
  bool is_rare(const ListedLine& line) const { return rare_.contains(line); }
  // Returns the expressions with the same text as expression `number`, in lines that differ from
  // its line in the numbers of names alone. Example: "sum" of a1 = all_reduce(a1, sum, ..) and of
  // a2 = ...
  std::set<int> alike(int number) const;
  // Returns the change of a bound of a loop as one of "range(0, n)"; nullopt for other changes.
  std::optional<TextChange> change_of_range(const TextChange& change) const;
  // Returns the expression that expression `number` is a part of; null if it is a whole one.
  const Expr* parent_of(int number) const;

 private:
  void add(const std::vector<Statement>& statements, size_t listing,
           std::vector<std::string>& loops, std::vector<std::string>& bound);
  Job copy_;  // owns the expressions
  std::map<const Expr*, int> numbers_;
  std::vector<ListedLine> lines_;
  std::set<ListedLine> rare_;
  std::vector<TextStatement> statements_;
};

// Returns the expressions that an expression is made of: arguments, then the parts of its index.
std::vector<const Expr*> children_of(const Expr& expr);
std::vector<Expr*> children_of(Expr& expr);

// Most lines that may share a difference and still be suspected, because a bug is rare.
inline constexpr size_t kRareLines = 3;

// Returns the text without the numbers in names: "v# @ a# * 2" for "v40 @ a40 * 2".
std::string text_kind_of(const std::string& text);

// Calls visit(expr) for an expression and all that it is made of, arguments first.
template <typename Visit>
void visit_parts(const Expr& expr, const Visit& visit) {
  for (const Expr* child : children_of(expr)) visit_parts(*child, visit);
  visit(expr);
}

// Returns the group over which a line reduces the name that it binds: "dp" for
// "g = all_reduce(g, avg, group=dp)" and "g = all_reduce(g, sum, group=dp) / m"; "" for other
// lines.
std::string group_of_own_reduction(const TextStatement& one);

}  // namespace shardproof
