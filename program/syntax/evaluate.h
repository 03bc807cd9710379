// Evaluates expressions over numbers. The caller defines names and functions (NumberScope), so that
// the loader, rank programs (rank, index(axis)) and expectations share one evaluator.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

struct NumberScope {
  // Returns the value of a name; nullopt if the scope does not have it.
  std::function<std::optional<Number>(const std::string& name)> name;
  // Returns the value of a function such as size(axis) or index(axis); nullopt if the scope does
  // not have it. `argument` is the text of the arguments.
  std::function<std::optional<Number>(const std::string& verb, const std::string& argument)>
      function;
};

// True for the functions that every scope has: min, max, ceil, exp, floor, log, sqrt.
bool is_number_function(std::string_view verb);
// Returns the value of an expression. Built in: operators, the functions above, lists, list[i],
// list.T.
// Throws Error(bad_input) for an unknown name or function, overflow, division by zero, or an
// operand of a wrong kind. The error has the place of the innermost expression.
Number evaluate(const Expr& expr, const NumberScope& scope);
// Returns the name with values in place of its braces: "h2". Throws Error(bad_input) if the result
// is not a name: h{i - 1} with i = 0.
std::string fill_name(const NameTemplate& name, const NumberScope& scope);
// Calls `visit` for every name in the expression, also for names in the braces of names and texts.
// Callers test with it, for example, if an expression depends on `rank`.
void visit_names(const Expr& expr, const std::function<void(const NameTemplate&)>& visit);

}  // namespace shardproof
