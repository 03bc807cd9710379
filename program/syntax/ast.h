// The syntax tree of a program. A listing is the array of lines of "program", "truth" or one entry
// of "ranks". Pure syntax, without ops, tensors or axes. Every node has its line (from 1, in the
// array) and column (from 1, in the line, in characters).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

struct SourceLocation {
  int line = 0, column = 0;
  bool operator==(const SourceLocation&) const = default;
};

struct Expr;
// A name with expressions in braces (holes): h{i - 1} has the texts "h" and "" around i - 1,
// its expression. A plain name has one text and no braces.
struct NameTemplate {
  std::vector<std::string> texts;  // before, between and after the holes: holes.size() + 1
  std::vector<Expr> holes;
  SourceLocation place;
  bool plain() const { return holes.empty(); }
  bool operator==(const NameTemplate&) const = default;
};

enum class ExprKind {
  number,      // number
  name,        // name
  text,        // 'dir/{rank}': name (template)
  list,        // args: [a, b]
  unary,       // symbol "-", "+", "not"; args[0]
  binary,      // symbol "+", "@", "//", "<=", "and", ...; args[0], args[1]
  call,        // symbol is the verb; args with keys
  index,       // args[0][items]
  transpose,   // args[0].T
  placements,  // an argument such as dp:S(0) on pp=0: placements, on
};

struct IndexItem;

struct Expr {
  ExprKind kind = ExprKind::number;
  SourceLocation place;
  Number number;
  NameTemplate name;
  std::string symbol;
  std::vector<Expr> args;
  std::vector<std::string> keys;  // of a call, one for each argument; "" if positional
  std::vector<SourceLocation> key_places;
  std::vector<IndexItem> items;
  std::vector<PlacementText> placements;
  std::string on;  // of placements: the ranks after "on", as written: "pp=0"
  SourceLocation on_place;
  bool operator==(const Expr&) const = default;
};

enum class IndexKind { at, slice, all_others, new_dim };  // i, low:high:step, ..., None
// One item of x[...].
struct IndexItem {
  IndexKind kind = IndexKind::at;
  std::vector<Expr> at;               // kind `at`: one expression
  std::vector<Expr> low, high, step;  // kind `slice`: none or one expression each
  bool operator==(const IndexItem&) const = default;
};

enum class StatementKind { assign, assign_index, call, for_range, if_else, on_stream, group };

struct Statement {
  StatementKind kind = StatementKind::call;
  SourceLocation place;
  std::vector<NameTemplate> targets;    // assign; for_range: the loop name; on_stream: the stream
  std::vector<IndexItem> target_index;  // assign_index
  std::optional<Expr> value;            // assign, assign_index, call; if_else: the condition
  std::vector<PlacementText> claim;     // placements after `as`; none after `as local`
  bool has_claim = false;               // `as` is written
  bool is_local = false;                // `as local`: no placements are claimed
  std::vector<Expr> range;              // for_range: one or two expressions
  std::vector<Statement> body, otherwise;
  bool operator==(const Statement&) const = default;
};

// The statements of a listing. Copies share them: a job and its runs have copies of a listing that
// may have 10,000 lines.
class Statements {
 public:
  Statements() : Statements(std::vector<Statement>()) {}
  Statements(std::vector<Statement> all)
      : all_(std::make_shared<const std::vector<Statement>>(std::move(all))) {}
  operator const std::vector<Statement>&() const { return *all_; }
  size_t size() const { return all_->size(); }
  const Statement& operator[](size_t i) const { return (*all_)[i]; }
  bool operator==(const Statements& other) const {
    return all_ == other.all_ || *all_ == *other.all_;
  }

 private:
  std::shared_ptr<const std::vector<Statement>> all_;
};

struct Listing {
  std::vector<std::string> lines;  // the text, for reports
  Statements statements;
  bool operator==(const Listing&) const = default;
};

// Returns the tree of a listing. Throws Error(bad_input) with line and column: what was expected,
// what was found. Throws Error(limit) for nesting deeper than 64; recursion is never deeper than
// that.
Listing parse_listing(const std::vector<std::string>& lines);
// Returns the tree of one expression (shapes, let, expect). Columns (Where::column) count in
// `text`.
Expr parse_expression(const std::string& text);

// Return text that parses to an equal tree, except for positions.
std::string to_string(const Expr& expr);
std::string to_string(const NameTemplate& name);                      // "h{i - 1}"
std::string to_string(const std::vector<PlacementText>& placements);  // "dp:S(0, after=tp) tp:R"
std::vector<std::string> to_lines(const Listing& listing);

// Return the tree without positions and source lines, so that equal programs compare equal.
Listing without_positions(Listing listing);
Expr without_positions(Expr expr);

}  // namespace shardproof
