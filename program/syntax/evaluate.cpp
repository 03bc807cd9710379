// Implements evaluate.h: a recursive walk over the tree.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/evaluate.h"
#include "shardproof/program/value/arithmetic.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

class Evaluator {
 public:
  explicit Evaluator(const NumberScope& scope) : scope_(scope) {}

  Number number(const Expr& expr) const;
  std::string text(const NameTemplate& name) const;
  std::string name(const NameTemplate& name) const;

 private:
  Number bare(const Expr& expr) const;
  Number named(const std::string& name) const;
  Number unary(const Expr& expr) const;
  Number binary(const Expr& expr) const;
  Number call(const Expr& expr) const;
  Number extreme(const Expr& expr) const;
  Number scope_function(const Expr& expr) const;
  Number indexed(const Expr& expr) const;
  Number transposed(const Expr& expr) const;
  Number::List all(const std::vector<Expr>& exprs) const;

  const NumberScope& scope_;
};

// Adds the place to errors. The place is that of the innermost expression, because Error::inside
// fills empty parts only.
Number Evaluator::number(const Expr& expr) const {
  try {
    return bare(expr);
  } catch (const Error& error) {
    throw error.inside(Where{"", "", expr.place.line, expr.place.column});
  }
}

Number Evaluator::bare(const Expr& expr) const {
  switch (expr.kind) {
    case ExprKind::number: return expr.number;
    case ExprKind::name: return named(name(expr.name));
    case ExprKind::text: return text(expr.name);
    case ExprKind::list: return all(expr.args);
    case ExprKind::unary: return unary(expr);
    case ExprKind::binary: return binary(expr);
    case ExprKind::call: return call(expr);
    case ExprKind::index: return indexed(expr);
    case ExprKind::transpose: return transposed(expr);
    case ExprKind::placements:
      throw_bad_input("expected a number, found the placements {}", to_string(expr.placements));
  }
  SP_UNREACHABLE("expression of kind {}", static_cast<int>(expr.kind));
}

Number::List Evaluator::all(const std::vector<Expr>& exprs) const {
  Number::List found;
  found.reserve(exprs.size());
  for (const Expr& expr : exprs) found.push_back(number(expr));
  return found;
}

Number Evaluator::named(const std::string& name) const {
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (scope_.name)
    if (std::optional<Number> found = scope_.name(name)) return std::move(*found);
  throw_bad_input("unknown name \"{}\"", name);
}

std::string Evaluator::text(const NameTemplate& name) const {
  std::string filled = name.texts.front();
  for (size_t i = 0; i < name.holes.size(); ++i) {
    const Number inside = number(name.holes[i]);
    if (inside.is_list())
      throw Error(ErrorKind::bad_input,
                  fmt::format("expected a number or a text in braces, found {}", to_string(inside)),
                  Where{"", "", name.holes[i].place.line, name.holes[i].place.column});
    filled += inside.is_text() ? inside.text() : to_string(inside);
    filled += name.texts[i + 1];
  }
  return filled;
}

std::string Evaluator::name(const NameTemplate& name) const {
  if (name.plain()) return name.texts.front();
  std::string filled = text(name);
  const bool all_names = is_name(name.texts.front()) &&
                         std::all_of(name.texts.begin() + 1, name.texts.end(), [](const auto& t) {
                           return std::all_of(t.begin(), t.end(), is_name_character);
                         });
  // `name` may also be a quoted text with braces, which need not form a name.
  if (all_names && !is_name(filled))
    throw Error(ErrorKind::bad_input,
                fmt::format("expected a name from {}, found \"{}\"", to_string(name), filled),
                Where{"", "", name.place.line, name.place.column});
  return filled;
}

Number Evaluator::unary(const Expr& expr) const {
  const Number operand = number(expr.args[0]);
  if (expr.symbol == "not") return !operand.truth();
  if (expr.symbol == "-") return detail::negated(operand);
  return detail::apply("+", Number(0), operand);
}

Number Evaluator::binary(const Expr& expr) const {
  const Number left = number(expr.args[0]);
  if (expr.symbol == "and") return left.truth() && number(expr.args[1]).truth();
  if (expr.symbol == "or") return left.truth() || number(expr.args[1]).truth();
  return detail::apply(expr.symbol, left, number(expr.args[1]));
}

Number Evaluator::call(const Expr& expr) const {
  const bool extremes = expr.symbol == "min" || expr.symbol == "max";
  const bool own = is_number_function(expr.symbol);
  for (size_t i = 0; i < expr.keys.size(); ++i)
    if (own && !expr.keys[i].empty())
      throw_bad_input("expected no keys in {}, found \"{}\"", expr.symbol, expr.keys[i]);
  if (extremes) return extreme(expr);
  if (!own) return scope_function(expr);
  if (expr.args.size() != 1)
    throw_bad_input("expected one number in {}, found {}", expr.symbol, expr.args.size());
  return detail::apply_function(expr.symbol, number(expr.args[0]));
}

Number Evaluator::extreme(const Expr& expr) const {
  Number::List numbers = all(expr.args);
  if (numbers.size() == 1 && numbers.front().is_list()) numbers = Number::List(numbers[0].list());
  if (numbers.empty()) throw_bad_input("expected a number in {}, found none", expr.symbol);
  Number best = numbers.front();
  for (const Number& one : numbers) {
    const auto order = detail::compare(one, best);
    if (expr.symbol == "min" ? order < 0 : order > 0) best = one;
  }
  return best;
}

Number Evaluator::scope_function(const Expr& expr) const {
  std::string argument;
  for (size_t i = 0; i < expr.args.size(); ++i) {
    const Expr& arg = expr.args[i];
    if (!expr.keys[i].empty())
      throw_bad_input("expected a number, found {}(.., {}=..)", expr.symbol, expr.keys[i]);
    if (i > 0) argument += ", ";
    argument += i == 0 && arg.kind == ExprKind::name ? name(arg.name) : to_string(number(arg));
  }
  if (scope_.function)
    if (std::optional<Number> found = scope_.function(expr.symbol, argument))
      return std::move(*found);
  throw_bad_input("expected a number, found {}({}), which is not a number here", expr.symbol,
                  argument);
}

Number Evaluator::indexed(const Expr& expr) const {
  const Number list = number(expr.args[0]);
  if (expr.items.size() != 1 || expr.items[0].kind != IndexKind::at)
    throw_bad_input("expected one index of a list, found {}",
                    expr.items.size() == 1 ? "a slice" : "several");
  const auto size = static_cast<int64_t>(list.list().size());
  const int64_t index = number(expr.items[0].at[0]).integer();
  if (index < -size || index >= size)
    throw_bad_input("index {} is out of range for a list of {}", index, size);
  return list.list()[static_cast<size_t>(index < 0 ? index + size : index)];
}

Number Evaluator::transposed(const Expr& expr) const {
  const Number table = number(expr.args[0]);
  const size_t columns = table.list().empty() ? 0 : table.list().front().list().size();
  Number::List turned;
  for (size_t c = 0; c < columns; ++c) {
    Number::List column;
    for (const Number& row : table.list()) {
      if (row.list().size() != columns)
        throw_bad_input("expected rows of equal length under .T, found {} and {}", columns,
                        row.list().size());
      column.push_back(row.list()[c]);
    }
    turned.emplace_back(std::move(column));
  }
  return turned;
}

}  // namespace

bool is_number_function(std::string_view verb) {
  return verb == "min" || verb == "max" || detail::is_function(verb);
}

Number evaluate(const Expr& expr, const NumberScope& scope) {
  return Evaluator(scope).number(expr);
}

std::string fill_name(const NameTemplate& name, const NumberScope& scope) {
  return Evaluator(scope).name(name);
}

void visit_names(const Expr& expr, const std::function<void(const NameTemplate&)>& visit) {
  for (const Expr& hole : expr.name.holes) visit_names(hole, visit);
  if (expr.kind == ExprKind::name) visit(expr.name);
  for (const Expr& argument : expr.args) visit_names(argument, visit);
  for (const IndexItem& item : expr.items)
    for (const auto* part : {&item.at, &item.low, &item.high, &item.step})
      for (const Expr& inner : *part) visit_names(inner, visit);
}

}  // namespace shardproof
