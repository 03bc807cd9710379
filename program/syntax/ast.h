// The text of a program as a tree: one listing is the array of lines of "program", "truth" or of
// one entry of "ranks". Pure syntax: knows no ops, no tensors, no axes. Every node has its line
// (1-based in the array) and column (1-based in the line).
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
// A name with holes: h{i - 1} is {"h", expr, ""}; plain names have one text and no holes.
struct NameTemplate {
  std::vector<std::string> texts;  // holes.size() + 1
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
  call,        // symbol = verb; args with keys
  index,       // args[0][items]: items
  transpose,   // args[0].T
  placements,  // an argument of placements: placements, on
};

struct IndexItem;

struct Expr {
  ExprKind kind = ExprKind::number;
  SourceLocation place;
  Number number;
  NameTemplate name;
  std::string symbol;
  std::vector<Expr> args;
  std::vector<std::string> keys;  // of a call: "" for positional, same length as args
  std::vector<SourceLocation> key_places;
  std::vector<IndexItem> items;
  std::vector<PlacementText> placements;
  std::string on;  // of placements: the ranks behind a last "on", as written: "pp=0"
  SourceLocation on_place;
  bool operator==(const Expr&) const = default;
};

enum class IndexKind { at, slice, all_others, new_dim };  // i, low:high:step, .., None
// One item of x[...].
struct IndexItem {
  IndexKind kind = IndexKind::at;
  std::vector<Expr> at;               // index: one
  std::vector<Expr> low, high, step;  // slice: none or one each
  bool operator==(const IndexItem&) const = default;
};

enum class StatementKind { assign, assign_index, call, for_range, if_else, on_stream, group };

struct Statement {
  StatementKind kind = StatementKind::call;
  SourceLocation place;
  std::vector<NameTemplate> targets;    // assign; for_range: the loop name; on_stream: the stream
  std::vector<IndexItem> target_index;  // assign_index
  std::optional<Expr> value;            // assign, assign_index, call; if: the condition
  std::vector<PlacementText> claim;     // `as` placements
  bool has_claim = false;
  std::vector<Expr> range;  // for_range: one or two expressions
  std::vector<Statement> body, otherwise;
  bool operator==(const Statement&) const = default;
};

struct Listing {
  std::vector<std::string> lines;  // the text, for reports
  std::vector<Statement> statements;
  bool operator==(const Listing&) const = default;
};

// Throws Error(bad_input) with line and column: what was expected, what was found. Depth of nesting
// is capped at 64; never recurses deeper than that.
Listing parse_listing(const std::vector<std::string>& lines);
// An expression on its own (shapes, let, expect). Where::column counts in `text`.
Expr parse_expression(const std::string& text);

// Text that parses to an equal tree (places aside).
std::string to_string(const Expr& expr);
std::string to_string(const NameTemplate& name);                      // "h{i - 1}"
std::string to_string(const std::vector<PlacementText>& placements);  // "dp:S(0, after=tp) tp:R"
std::vector<std::string> to_lines(const Listing& listing);

// The tree alone: every place, column and source line is forgotten. Equal programs compare equal
// so.
Listing without_positions(Listing listing);
Expr without_positions(Expr expr);

}  // namespace shardproof
