// Implements the text form of ast.h. Parentheses are printed only where precedence.h requires them.
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/syntax/precedence.h"

namespace shardproof {
namespace {

// Appends to one string, so that parts of a long line are not copied.
class ExprPrinter {
 public:
  explicit ExprPrinter(std::string& out) : out_(out) {}

  // Appends an expression, in parentheses if it binds less strongly than `weakest`.
  void print(const Expr& expr, int weakest = detail::kWeakest);
  void print(const NameTemplate& name);
  void print(const std::vector<IndexItem>& items);

 private:
  void print_bare(const Expr& expr);
  void print_binary(const Expr& expr);
  void print_call(const Expr& expr);
  void print_list(const std::vector<Expr>& exprs);

  std::string& out_;
};

bool prints_a_sign(const Number& number) {
  if (number.is_integer()) return number.integer() < 0;
  return number.is_double() && std::signbit(number.real());
}

int expr_precedence(const Expr& expr) {
  if (expr.kind == ExprKind::unary) return expr.symbol == "not" ? detail::kNot : detail::kUnary;
  if (expr.kind == ExprKind::number) return prints_a_sign(expr.number) ? detail::kUnary : 10;
  if (expr.kind != ExprKind::binary) return detail::kPostfix;
  return expr.symbol == "**" ? detail::kPower : detail::binary_precedence(expr.symbol);
}

void ExprPrinter::print(const Expr& expr, int weakest) {
  const bool weak = expr_precedence(expr) < weakest;
  if (weak) out_ += '(';
  print_bare(expr);
  if (weak) out_ += ')';
}

void ExprPrinter::print(const NameTemplate& name) {
  SP_CHECK(name.texts.size() == name.holes.size() + 1, "{} texts and {} braces", name.texts.size(),
           name.holes.size());
  out_ += name.texts.front();
  for (size_t i = 0; i < name.holes.size(); ++i) {
    out_ += '{';
    print(name.holes[i]);
    out_ += '}';
    out_ += name.texts[i + 1];
  }
}

void ExprPrinter::print(const std::vector<IndexItem>& items) {
  out_ += '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_ += ", ";
    const IndexItem& item = items[i];
    if (item.kind == IndexKind::all_others) out_ += "...";
    if (item.kind == IndexKind::new_dim) out_ += "None";
    for (const Expr& part : item.at) print(part);
    for (const Expr& part : item.low) print(part);
    if (item.kind == IndexKind::slice) out_ += ':';
    for (const Expr& part : item.high) print(part);
    for (const Expr& part : item.step) {
      out_ += ':';
      print(part);
    }
  }
  out_ += ']';
}

void ExprPrinter::print_list(const std::vector<Expr>& exprs) {
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (i > 0) out_ += ", ";
    print(exprs[i]);
  }
}

void ExprPrinter::print_binary(const Expr& expr) {
  const int precedence = expr_precedence(expr);
  SP_CHECK(precedence > 0 && expr.args.size() == 2, "no binary operator: {}", expr.symbol);
  int left = precedence, right = precedence + 1;
  if (precedence == detail::kPower) {
    left = detail::kPostfix;
    right = detail::kUnary;
  } else if (precedence == detail::kComparison) {
    left = precedence + 1;
  }
  print(expr.args[0], left);
  fmt::format_to(std::back_inserter(out_), " {} ", expr.symbol);
  print(expr.args[1], right);
}

void ExprPrinter::print_call(const Expr& expr) {
  out_ += expr.symbol;
  out_ += '(';
  for (size_t i = 0; i < expr.args.size(); ++i) {
    if (i > 0) out_ += ", ";
    if (!expr.keys[i].empty()) fmt::format_to(std::back_inserter(out_), "{}=", expr.keys[i]);
    print(expr.args[i]);
  }
  out_ += ')';
}

void ExprPrinter::print_bare(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::number: out_ += to_string(expr.number); return;
    case ExprKind::name: print(expr.name); return;
    case ExprKind::text:
      out_ += '\'';
      print(expr.name);
      out_ += '\'';
      return;
    case ExprKind::list:
      out_ += '[';
      print_list(expr.args);
      out_ += ']';
      return;
    case ExprKind::unary:
      out_ += expr.symbol;
      if (expr.symbol == "not") out_ += ' ';
      print(expr.args[0], expr_precedence(expr));
      return;
    case ExprKind::binary: print_binary(expr); return;
    case ExprKind::call: print_call(expr); return;
    case ExprKind::index:
      print(expr.args[0], detail::kPostfix);
      print(expr.items);
      return;
    case ExprKind::transpose:
      print(expr.args[0], detail::kPostfix);
      out_ += ".T";
      return;
    case ExprKind::placements:
      out_ += to_string(expr.placements);
      if (!expr.on.empty()) out_ += expr.placements.empty() ? "on " : " on ";
      out_ += expr.on;
      return;
  }
  SP_UNREACHABLE("expression of kind {}", static_cast<int>(expr.kind));
}

void append_names(std::string& line, const std::vector<NameTemplate>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) line += ", ";
    ExprPrinter(line).print(names[i]);
  }
}

class ListingPrinter {
 public:
  std::vector<std::string> lines;

  void print(const std::vector<Statement>& statements, size_t indent) {
    for (const Statement& statement : statements) {
      std::string line(indent, ' ');
      append(line, statement);
      lines.push_back(std::move(line));
      print(statement.body, indent + 2);
      if (statement.otherwise.empty()) continue;
      lines.push_back(std::string(indent, ' ') + "else:");
      print(statement.otherwise, indent + 2);
    }
  }

 private:
  static void append(std::string& line, const Statement& statement);
};

void ListingPrinter::append(std::string& line, const Statement& statement) {
  ExprPrinter printer(line);
  switch (statement.kind) {
    case StatementKind::assign:
    case StatementKind::assign_index:
      append_names(line, statement.targets);
      if (statement.kind == StatementKind::assign_index) printer.print(statement.target_index);
      line += " = ";
      printer.print(*statement.value);
      if (statement.has_claim)
        line += " as " + (statement.is_local ? "local" : to_string(statement.claim));
      return;
    case StatementKind::call: printer.print(*statement.value); return;
    case StatementKind::for_range:
      line += "for ";
      append_names(line, statement.targets);
      line += " in range(";
      printer.print(statement.range.front());
      if (statement.range.size() > 1) line += ", ";
      if (statement.range.size() > 1) printer.print(statement.range.back());
      line += "):";
      return;
    case StatementKind::if_else:
      line += "if ";
      printer.print(*statement.value);
      line += ':';
      return;
    case StatementKind::on_stream:
      line += "on ";
      append_names(line, statement.targets);
      line += ':';
      return;
    case StatementKind::group: line += "group:"; return;
  }
  SP_UNREACHABLE("statement of kind {}", static_cast<int>(statement.kind));
}

void append_placement(std::string& text, const PlacementText& one) {
  if (!text.empty()) text += ' ';
  if (!one.axis.empty()) text.append(one.axis).append(":");
  text += to_string(one.placement);
  if (!one.after.empty()) {
    text.pop_back();
    const bool several = one.after.size() > 1;
    text += several ? ", after=[" : ", after=";
    for (size_t i = 0; i < one.after.size(); ++i) text += (i > 0 ? ", " : "") + one.after[i];
    text += several ? "])" : ")";
  }
}

}  // namespace

std::string to_string(const Expr& expr) {
  std::string text;
  ExprPrinter(text).print(expr);
  return text;
}

std::string to_string(const NameTemplate& name) {
  std::string text;
  ExprPrinter(text).print(name);
  return text;
}

std::string to_string(const std::vector<PlacementText>& placements) {
  std::string text;
  for (const PlacementText& one : placements) append_placement(text, one);
  return text;
}

std::vector<std::string> to_lines(const Listing& listing) {
  ListingPrinter printer;
  printer.print(listing.statements, 0);
  return std::move(printer.lines);
}

}  // namespace shardproof
