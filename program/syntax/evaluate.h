// Evaluates expressions over numbers. What a name or a function means is handed in, so that the
// loader, rank programs (rank, index(axis)) and expectations share one evaluator.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

struct NumberScope {
  // nullopt: not a number in this scope (the evaluator then says "unknown name", or lets the caller
  // decide).
  std::function<std::optional<Number>(const std::string& name)> name;
  // size(axis), index(axis) and such: the verb and its argument written as a name. nullopt:
  // unknown.
  std::function<std::optional<Number>(const std::string& verb, const std::string& argument)>
      function;
};

// Throws Error(bad_input) with the place inside the expression: unknown name, overflow, division by
// zero, a tensor where a number is due. min, max, ceil, comparisons, and/or/not, lists, list[i],
// list.T are built in.
Number evaluate(const Expr& expr, const NumberScope& scope);
// The name with its holes filled: "h2". Error when that is no name: h{i - 1} with i = 0.
std::string fill_name(const NameTemplate& name, const NumberScope& scope);
// Calls `visit` for every name the expression mentions (does it depend on rank?), after those in
// its holes; of a text for those in its holes.
void visit_names(const Expr& expr, const std::function<void(const NameTemplate&)>& visit);

}  // namespace shardproof
