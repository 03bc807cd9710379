// Implements condition.h.
#include "shardproof/program/syntax/condition.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/value/arithmetic.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

struct Sign {
  std::string_view text;
  Condition::Form form;
};
// Longer signs come first, because "<" is a prefix of "<=".
constexpr std::array<Sign, 4> kSigns = {{{"<=", Condition::Form::at_most},
                                         {">=", Condition::Form::at_least},
                                         {"<", Condition::Form::less},
                                         {">", Condition::Form::greater}}};

struct Bound {
  Unit unit = Unit::none;
  Number value;
};

void require_ordered_number(const Number& value) {
  const bool number = value.is_integer() || (value.is_double() && !std::isnan(value.real()));
  if (!number) throw_bad_input("expected a number, found {}", to_string(value));
}

// Throws Error(bad_input) for a number with an unknown unit, as in "5 parsec".
void refuse_unknown_unit(std::string_view text) {
  const size_t digits = text.find_first_not_of(' ');
  if (digits == std::string_view::npos) return;
  const size_t behind = text.find_first_not_of("0123456789.", digits);
  const size_t unit = behind == std::string_view::npos || behind == digits
                          ? std::string_view::npos
                          : text.find_first_not_of(' ', behind);
  if (unit == std::string_view::npos || !is_name_start(text[unit])) return;
  const std::string_view word = text.substr(unit);
  if (word.find_first_of(" (+-*%<>=") != std::string_view::npos) return;
  throw Error(
      ErrorKind::bad_input,
      fmt::format("unknown unit \"{}\"; quantities are such as 25 us, 80 GB or 50 GB/s", word),
      Where{"", "", 0, static_cast<int>(unit) + 1});
}

Bound read_bound(std::string_view text, const NumberScope& scope) {
  if (const std::optional<Quantity> quantity = find_quantity(text)) {
    if (quantity->unit == Unit::bandwidth || quantity->unit == Unit::arithmetic)
      return {quantity->unit, Number(quantity->rate)};
    return {quantity->unit, Number(quantity->whole)};
  }
  refuse_unknown_unit(text);
  const Bound bound{Unit::none, evaluate(parse_expression(std::string(text)), scope)};
  require_ordered_number(bound.value);
  return bound;
}

// Reads a bound that begins at `offset`; columns of errors count in the whole text.
Bound bound_at(std::string_view text, size_t offset, size_t length, const NumberScope& scope) {
  try {
    return read_bound(text.substr(offset, length), scope);
  } catch (const Error& error) {
    Where where = error.where();
    where.column = std::max(where.column, 1) + static_cast<int>(offset);
    throw Error(error.kind(), error.message(), where);
  }
}

std::string bound_text(Unit unit, const Number& value) {
  if (unit == Unit::none) return to_string(value);
  if (unit == Unit::bandwidth || unit == Unit::arithmetic)
    return to_string(Quantity{unit, 0, value.real()});
  return to_string(Quantity{unit, value.integer(), 0});
}

}  // namespace

Condition Condition::equal_to(Number value) {
  require_ordered_number(value);
  Condition condition;
  condition.low_ = std::move(value);
  return condition;
}

Condition Condition::parse(const std::string& text, const NumberScope& scope) {
  Condition condition;
  size_t start = std::min(text.find_first_not_of(' '), text.size());
  for (const Sign& sign : kSigns) {
    if (text.compare(start, sign.text.size(), sign.text) != 0) continue;
    condition.form_ = sign.form;
    start += sign.text.size();
    break;
  }
  const size_t dots = condition.form_ == Form::equal ? text.find("..") : std::string::npos;
  const Bound low = bound_at(text, start, dots == std::string::npos ? dots : dots - start, scope);
  condition.unit_ = low.unit;
  condition.low_ = low.value;
  if (dots == std::string::npos) return condition;
  const Bound high = bound_at(text, dots + 2, std::string::npos, scope);
  const Where where{"", "", 0, static_cast<int>(dots) + 1};
  if (high.unit != low.unit)
    throw Error(ErrorKind::bad_input,
                fmt::format("expected two ends of one unit, found {} and {}", name(low.unit),
                            name(high.unit)),
                where);
  if (detail::compare(low.value, high.value) > 0)
    throw Error(ErrorKind::bad_input,
                fmt::format("expected a range from the smaller to the larger end, found {} .. {}",
                            bound_text(low.unit, low.value), bound_text(high.unit, high.value)),
                where);
  condition.form_ = Form::between;
  condition.high_ = high.value;
  return condition;
}

// Returns false for nan, because every comparison with it is unordered.
template <typename Compare>
bool Condition::judge(const Compare& against) const {
  const std::partial_ordering order = against(low_);
  switch (form_) {
    case Form::equal: return order == 0;
    case Form::less: return order < 0;
    case Form::at_most: return order <= 0;
    case Form::greater: return order > 0;
    case Form::at_least: return order >= 0;
    case Form::between: return order >= 0 && against(high_) <= 0;
  }
  SP_UNREACHABLE("condition of form {}", static_cast<int>(form_));
}

bool Condition::holds(int64_t actual) const {
  return judge([&](const Number& bound) { return detail::compare(Number(actual), bound); });
}

bool Condition::holds(double actual) const {
  return judge([&](const Number& bound) { return detail::compare(Number(actual), bound); });
}

bool Condition::holds(Fraction actual) const {
  return judge([&](const Number& bound) -> std::partial_ordering {
    if (bound.is_integer()) return actual <=> Fraction(bound.integer());
    return actual.to_double() <=> bound.real();
  });
}

std::string to_string(const Condition& condition) {
  const std::string low = bound_text(condition.unit(), condition.low());
  if (condition.form() == Condition::Form::equal) return low;
  if (condition.form() == Condition::Form::between)
    return fmt::format("{} .. {}", low, bound_text(condition.unit(), condition.high()));
  for (const Sign& sign : kSigns)
    if (sign.form == condition.form()) return fmt::format("{} {}", sign.text, low);
  SP_UNREACHABLE("condition of form {}", static_cast<int>(condition.form()));
}

}  // namespace shardproof
