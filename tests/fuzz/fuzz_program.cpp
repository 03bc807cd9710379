// Any text is refused with an Error or parsed to a tree. The tree prints, parses back to itself,
// and evaluates to a number or an Error. The input is a listing, and each of its lines is an
// expression and a condition as well.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/syntax/condition.h"
#include "shardproof/program/syntax/evaluate.h"

namespace shardproof {
namespace {

void demand(bool held, const char* law) {
  if (held) return;
  std::fprintf(stderr, "broken: %s\n", law);
  std::abort();
}

void try_evaluate(const Expr& expr) {
  try {
    to_string(evaluate(expr, {}));
  } catch (const Error& error) {
    demand(error.where().column > 0, "an evaluation that fails names its column");
  }
}

void evaluate_all(const std::vector<Statement>& statements) {
  for (const Statement& statement : statements) {
    if (statement.value) try_evaluate(*statement.value);
    for (const Expr& bound : statement.range) try_evaluate(bound);
    evaluate_all(statement.body);
    evaluate_all(statement.otherwise);
  }
}

void check_listing(const std::vector<std::string>& lines) {
  Listing listing;
  try {
    listing = parse_listing(lines);
  } catch (const Error& error) {
    demand(error.where().line > 0 && error.where().column > 0, "a refused line names its place");
    return;
  }
  const std::vector<std::string> printed = to_lines(listing);
  const Listing again = parse_listing(printed);
  demand(without_positions(again) == without_positions(listing), "printed lines parse back");
  demand(to_lines(again) == printed, "printing is a fixed point");
  evaluate_all(listing.statements);
}

void check_expression(const std::string& text) {
  try {
    const Expr expr = parse_expression(text);
    demand(without_positions(parse_expression(to_string(expr))) == without_positions(expr),
           "a printed expression parses back");
    try_evaluate(expr);
  } catch (const Error& error) {
    demand(error.where().column > 0, "a refused expression names its column");
  }
}

void check_condition(const std::string& text) {
  try {
    const Condition condition = Condition::parse(text);
    demand(Condition::parse(to_string(condition)) == condition, "a printed condition parses back");
    condition.holds(0);
  } catch (const Error& error) {
    demand(error.where().column > 0, "a refused condition names its column");
  }
}

}  // namespace
}  // namespace shardproof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += static_cast<char>(data[i]);
    }
  }
  shardproof::check_listing(lines);
  for (const std::string& line : lines) {
    shardproof::check_expression(line);
    shardproof::check_condition(line);
  }
  return 0;
}
