// Implements listing_builder.h.
#include "shardproof/program/syntax/listing_builder.h"

#include <cmath>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/placed_text.h"
#include "shardproof/program/syntax/precedence.h"

namespace shardproof {
namespace {

Expr made(ExprKind kind) {
  Expr expr;
  expr.kind = kind;
  return expr;
}

Expr literal(Number number) {
  Expr expr = made(ExprKind::number);
  expr.number = std::move(number);
  return expr;
}

Term parsed(const std::string& text, ExprKind kind, std::string_view expected) {
  Expr expr = without_positions(parse_expression(text));
  if (expr.kind != kind) throw_bad_input("expected {}, found \"{}\"", expected, text);
  return Term(std::move(expr));
}

NameTemplate target_of(const std::string& target) { return name(target).expr().name; }

std::vector<PlacementText> placements_of(const std::string& text) {
  std::vector<PlacementText> placements = parse_placements(text);
  for (PlacementText& one : placements) one.column = 0;
  return placements;
}

Item sliced(const std::optional<Term>& low, const std::optional<Term>& high) {
  IndexItem item;
  item.kind = IndexKind::slice;
  if (low) item.low.push_back(low->expr());
  if (high) item.high.push_back(high->expr());
  return Item(std::move(item));
}

std::vector<IndexItem> items_of(const std::vector<Item>& items) {
  std::vector<IndexItem> found;
  for (const Item& one : items) found.push_back(one.item);
  return found;
}

Statement statement_of(StatementKind kind) {
  Statement statement;
  statement.kind = kind;
  return statement;
}

}  // namespace

// The language has no negative literals: -5 is a unary minus and 5; INT64_MIN is (INT64_MIN + 1) -
// 1.
Term::Term(int64_t value) {
  if (value == INT64_MIN) {
    expr_ = (Term(value + 1) - Term(1)).expr();
  } else {
    expr_ = value < 0 ? unary("-", Term(literal(-value))).expr() : literal(value);
  }
}

Term::Term(double value) {
  const double size = std::abs(value);
  Term number(literal(size));
  if (std::isinf(value)) number = name("inf");
  if (std::isnan(value)) number = name("nan");
  expr_ = std::signbit(value) && !std::isnan(value) ? unary("-", number).expr() : number.expr();
}

Expr Term::truth(bool value) { return literal(value); }

Term Term::operator[](const Term& index) const { return at(*this, {index}); }

Term Term::T() const {
  Expr expr = made(ExprKind::transpose);
  expr.args.push_back(expr_);
  return Term(std::move(expr));
}

Term name(const std::string& name) { return parsed(name, ExprKind::name, "a name"); }

Term text(const std::string& content) {
  return parsed("'" + content + "'", ExprKind::text, "a text without quotes");
}

Term list(const std::vector<Term>& items) {
  Expr expr = made(ExprKind::list);
  for (const Term& item : items) expr.args.push_back(item.expr());
  return Term(std::move(expr));
}

Term placed(const std::string& placements) {
  Expr expr = made(ExprKind::placements);
  const PlacedText parts = split_placed(placements);
  if (parts.has_on && parts.on.empty())
    throw_bad_input("expected ranks such as pp=0 after \"on\", found none");
  if (!parts.has_on || !parts.placements.empty())
    expr.placements = placements_of(std::string(parts.has_on ? parts.placements : placements));
  expr.on = parts.on;
  return Term(std::move(expr));
}

Term unary(const std::string& symbol, const Term& operand) {
  if (symbol != "-" && symbol != "+" && symbol != "not")
    throw_bad_input("expected an operator before one operand, found \"{}\"", symbol);
  Expr expr = made(ExprKind::unary);
  expr.symbol = symbol;
  expr.args.push_back(operand.expr());
  return Term(std::move(expr));
}

Term binary(const Term& left, const std::string& symbol, const Term& right) {
  if (detail::binary_precedence(symbol) == 0 && symbol != "**")
    throw_bad_input("expected an operator between two operands, found \"{}\"", symbol);
  Expr expr = made(ExprKind::binary);
  expr.symbol = symbol;
  expr.args = {left.expr(), right.expr()};
  return Term(std::move(expr));
}

Item slice(const Term& low, const Term& high) { return sliced(low, high); }
Item slice_from(const Term& low) { return sliced(low, std::nullopt); }
Item slice_all() { return sliced(std::nullopt, std::nullopt); }

Term at(const Term& list, const std::vector<Item>& items) {
  Expr expr = made(ExprKind::index);
  expr.args.push_back(list.expr());
  expr.items = items_of(items);
  return Term(std::move(expr));
}

Term call_with(const std::string& verb, const std::vector<Argument>& arguments) {
  Expr expr = made(ExprKind::call);
  expr.symbol = verb;
  for (const Argument& argument : arguments) {
    expr.args.push_back(argument.value.expr());
    expr.keys.push_back(argument.key);
    expr.key_places.emplace_back();
  }
  return Term(std::move(expr));
}

void ListingBuilder::assign(const std::string& target, const Term& value) {
  assign_several({target}, value);
}

void ListingBuilder::assign_several(const std::vector<std::string>& targets, const Term& value) {
  Statement statement = statement_of(StatementKind::assign);
  for (const std::string& target : targets) statement.targets.push_back(target_of(target));
  statement.value = value.expr();
  statements_.push_back(std::move(statement));
}

void ListingBuilder::claim(const std::string& target, const Term& value,
                           const std::string& placements) {
  assign(target, value);
  statements_.back().has_claim = true;
  statements_.back().claim = placements_of(placements);
}

void ListingBuilder::assign_at(const std::string& target, const std::vector<Item>& items,
                               const Term& value) {
  assign(target, value);
  statements_.back().kind = StatementKind::assign_index;
  statements_.back().target_index = items_of(items);
}

void ListingBuilder::run(const Term& call) {
  Statement statement = statement_of(StatementKind::call);
  statement.value = call.expr();
  statements_.push_back(std::move(statement));
}

std::vector<Statement> ListingBuilder::block(const Body& body) {
  ListingBuilder inner;
  body(inner);
  return std::move(inner.statements_);
}

void ListingBuilder::for_range(const std::string& name, const Term& from, const Term& to,
                               const Body& body) {
  Statement statement = statement_of(StatementKind::for_range);
  statement.targets.push_back(target_of(name));
  statement.range = {from.expr(), to.expr()};
  statement.body = block(body);
  statements_.push_back(std::move(statement));
}

void ListingBuilder::for_range(const std::string& name, const Term& to, const Body& body) {
  for_range(name, to, to, body);
  statements_.back().range.pop_back();
}

void ListingBuilder::if_else(const Term& condition, const Body& body, const Body& otherwise) {
  Statement statement = statement_of(StatementKind::if_else);
  statement.value = condition.expr();
  statement.body = block(body);
  if (otherwise) statement.otherwise = block(otherwise);
  statements_.push_back(std::move(statement));
}

void ListingBuilder::on(const std::string& stream, const Body& body) {
  Statement statement = statement_of(StatementKind::on_stream);
  statement.targets.push_back(target_of(stream));
  statement.body = block(body);
  statements_.push_back(std::move(statement));
}

void ListingBuilder::group(const Body& body) {
  Statement statement = statement_of(StatementKind::group);
  statement.body = block(body);
  statements_.push_back(std::move(statement));
}

// Prints and parses the tree, so that positions and lines are those of the printed text.
Listing ListingBuilder::build() const {
  Listing tree;
  tree.statements = statements_;
  Listing parsed = parse_listing(to_lines(tree));
  if (without_positions(parsed) != without_positions(std::move(tree)))
    throw_bad_input("expected a tree that the language can write, found one that reads back as {}",
                    parsed.lines.empty() ? "nothing" : parsed.lines.front());
  return parsed;
}

}  // namespace shardproof
