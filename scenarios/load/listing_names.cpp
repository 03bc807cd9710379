// Implements listing_names.h.
#include "shardproof/scenarios/load/listing_names.h"

#include <functional>

namespace shardproof {
namespace {

// Visits all expressions and statements of a listing. The parser limits the depth.
struct Visitor {
  std::function<void(const Expr&)> on_expr;
  std::function<void(const Statement&)> on_statement;

  void visit(const NameTemplate& name) const {
    for (const Expr& hole : name.holes) visit(hole);
  }
  void visit(const std::vector<IndexItem>& items) const {
    for (const IndexItem& item : items)
      for (const std::vector<Expr>* part : {&item.at, &item.low, &item.high, &item.step})
        for (const Expr& expr : *part) visit(expr);
  }
  void visit(const Expr& expr) const {
    if (on_expr) on_expr(expr);
    visit(expr.name);
    for (const Expr& arg : expr.args) visit(arg);
    visit(expr.items);
  }
  void visit(const Statement& statement) const {
    if (on_statement) on_statement(statement);
    for (const NameTemplate& target : statement.targets) visit(target);
    visit(statement.target_index);
    if (statement.value) visit(*statement.value);
    for (const Expr& expr : statement.range) visit(expr);
    visit(statement.body);
    visit(statement.otherwise);
  }
  void visit(const std::vector<Statement>& statements) const {
    for (const Statement& statement : statements) visit(statement);
  }
};

}  // namespace

std::vector<NameUse> names_read(const Listing& listing) {
  std::vector<NameUse> out;
  Visitor visitor;
  visitor.on_expr = [&](const Expr& expr) {
    if (expr.kind == ExprKind::name && expr.name.plain())
      out.emplace_back(expr.name.texts[0], expr.place);
  };
  visitor.visit(listing.statements);
  return out;
}

bool may_read(const Listing& listing, const std::string& name) {
  bool found = false;
  Visitor visitor;
  visitor.on_expr = [&](const Expr& expr) {
    if (expr.kind != ExprKind::name) return;
    const std::vector<std::string>& texts = expr.name.texts;
    found = found ||
            (expr.name.plain() ? texts[0] == name
                               : name.starts_with(texts.front()) && name.ends_with(texts.back()));
  };
  visitor.visit(listing.statements);
  return found;
}

std::vector<NameUse> verbs_called(const Listing& listing) {
  std::vector<NameUse> out;
  Visitor visitor;
  visitor.on_expr = [&](const Expr& expr) {
    if (expr.kind == ExprKind::call) out.emplace_back(expr.symbol, expr.place);
  };
  visitor.visit(listing.statements);
  return out;
}

std::vector<NameTemplate> names_bound(const Listing& listing) {
  std::vector<NameTemplate> out;
  Visitor visitor;
  visitor.on_statement = [&](const Statement& statement) {
    if (statement.kind == StatementKind::assign)
      out.insert(out.end(), statement.targets.begin(), statement.targets.end());
  };
  visitor.visit(listing.statements);
  return out;
}

std::vector<NameUse> streams_named(const Listing& listing) {
  std::vector<NameUse> out;
  Visitor visitor;
  visitor.on_statement = [&](const Statement& statement) {
    if (statement.kind == StatementKind::on_stream && statement.targets[0].plain())
      out.emplace_back(statement.targets[0].texts[0], statement.place);
  };
  visitor.visit(listing.statements);
  return out;
}

}  // namespace shardproof
