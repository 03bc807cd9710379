// Implements without_positions of ast.h.
#include <utility>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {
namespace {

void forget(Expr& expr);

void forget(NameTemplate& name) {
  name.place = {};
  for (Expr& hole : name.holes) forget(hole);
}

void forget(std::vector<PlacementText>& placements) {
  for (PlacementText& one : placements) one.column = 0;
}

void forget(std::vector<IndexItem>& items) {
  for (IndexItem& item : items)
    for (std::vector<Expr>* part : {&item.at, &item.low, &item.high, &item.step})
      for (Expr& expr : *part) forget(expr);
}

void forget(Expr& expr) {
  expr.place = expr.on_place = {};
  forget(expr.name);
  for (Expr& argument : expr.args) forget(argument);
  for (SourceLocation& place : expr.key_places) place = {};
  forget(expr.items);
  forget(expr.placements);
}

void forget(Statement& statement) {
  statement.place = {};
  for (NameTemplate& target : statement.targets) forget(target);
  forget(statement.target_index);
  if (statement.value) forget(*statement.value);
  forget(statement.claim);
  for (Expr& bound : statement.range) forget(bound);
  for (Statement& inner : statement.body) forget(inner);
  for (Statement& inner : statement.otherwise) forget(inner);
}

}  // namespace

Listing without_positions(Listing listing) {
  listing.lines.clear();
  std::vector<Statement> statements = listing.statements;
  for (Statement& statement : statements) forget(statement);
  listing.statements = std::move(statements);
  return listing;
}

Expr without_positions(Expr expr) {
  forget(expr);
  return expr;
}

}  // namespace shardproof
