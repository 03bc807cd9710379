// Implements arithmetic.h.
#include <fmt/format.h>

#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/value/arithmetic.h"

namespace shardproof::detail {
namespace {

[[noreturn]] void refuse_overflow(std::string_view symbol, int64_t a, int64_t b) {
  throw_bad_input("overflow: {} {} {} does not fit in 64 bits", a, symbol, b);
}

int64_t floored_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double floored_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Multiplies by squaring. The loop is short for any exponent: bases other than 0, 1 and -1 overflow
// within 64 squarings.
int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1, square = base;
  for (int64_t left = exponent; left > 0;) {
    if (left % 2 == 1 && __builtin_mul_overflow(result, square, &result))
      refuse_overflow("**", base, exponent);
    left /= 2;
    if (left > 0 && __builtin_mul_overflow(square, square, &square))
      refuse_overflow("**", base, exponent);
  }
  return result;
}

// Returns another number for each operator, so that operators can be the cases of a switch.
constexpr int number_of(std::string_view symbol) {
  int number = 0;
  for (const char c : symbol) number = number * 256 + c;
  return number;
}

Number divide(std::string_view symbol, int64_t a, int64_t b) {
  if (b == 0) throw_bad_input("division by zero: {} {} {}", a, symbol, b);
  // INT64_MIN / -1 is the only quotient that does not fit; every remainder by -1 is 0.
  if (b == -1 && symbol == "%") return int64_t{0};
  if (b == -1 && a == INT64_MIN) refuse_overflow(symbol, a, b);
  if (symbol == "//") return floored_quotient(a, b);
  if (symbol == "%") return a - floored_quotient(a, b) * b;
  if (a % b == 0) return a / b;
  return static_cast<double>(a) / static_cast<double>(b);
}

Number apply_integers(std::string_view symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (number_of(symbol)) {
    case number_of("+"): overflow = __builtin_add_overflow(a, b, &result); break;
    case number_of("-"): overflow = __builtin_sub_overflow(a, b, &result); break;
    case number_of("*"): overflow = __builtin_mul_overflow(a, b, &result); break;
    case number_of("**"):
      if (a == 0 && b < 0) throw_bad_input("division by zero: 0 ** {}", b);
      if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
      return integer_power(a, b);
    default: return divide(symbol, a, b);
  }
  if (overflow) refuse_overflow(symbol, a, b);
  return result;
}

Number apply_reals(std::string_view symbol, double a, double b) {
  if (symbol == "+") return a + b;
  if (symbol == "-") return a - b;
  if (symbol == "*") return a * b;
  if (symbol == "**") {
    if (a < 0 && std::trunc(b) != b) throw_bad_input("{} ** {} is not a real number", a, b);
    if (a == 0 && b < 0) throw_bad_input("division by zero: {} ** {}", a, b);
    return std::pow(a, b);
  }
  if (b == 0) throw_bad_input("division by zero: {} {} {}", a, symbol, b);
  if (symbol == "/") return a / b;
  if (symbol == "%") return floored_remainder(a, b);
  return std::floor(a / b);
}

std::partial_ordering compare_mixed(int64_t a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= 0x1p63) return std::partial_ordering::less;
  if (b < -0x1p63) return std::partial_ordering::greater;
  const double whole = std::trunc(b);
  const auto below = static_cast<int64_t>(whole);
  if (a != below) return a <=> below;
  return whole <=> b;
}

bool is_number(const Number& number) { return number.is_integer() || number.is_double(); }

void require_number(const Number& number) {
  if (!is_number(number)) throw_bad_input("expected a number, found {}", to_string(number));
}

bool equal_lists(const Number::List& a, const Number::List& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

using FunctionOfReal = double (*)(double);

FunctionOfReal find_function(std::string_view name) {
  static constexpr std::pair<std::string_view, FunctionOfReal> kFunctions[] = {
      {"ceil", std::ceil},
      {"exp", std::exp},
      {"floor", std::floor},
      {"log", std::log},
      {"sqrt", std::sqrt}};
  for (const auto& [known, function] : kFunctions)
    if (known == name) return function;
  return nullptr;
}

}  // namespace

std::partial_ordering compare(const Number& a, const Number& b) {
  require_number(a);
  require_number(b);
  if (a.is_integer() && b.is_integer()) return a.integer() <=> b.integer();
  if (a.is_integer()) return compare_mixed(a.integer(), b.real());
  if (b.is_integer()) return 0 <=> compare_mixed(b.integer(), a.real());
  return a.real() <=> b.real();
}

bool equal(const Number& a, const Number& b) {
  if (a.is_list() && b.is_list()) return equal_lists(a.list(), b.list());
  if (is_number(a) && is_number(b)) return compare(a, b) == 0;
  if (a.is_text() != b.is_text() || a.is_bool() != b.is_bool() || a.is_list() || b.is_list())
    throw_bad_input("expected two values of one kind to compare, found {} and {}", to_string(a),
                    to_string(b));
  return a == b;
}

Number apply(std::string_view symbol, const Number& a, const Number& b) {
  const int operation = number_of(symbol);
  switch (operation) {
    case number_of("=="): return equal(a, b);
    case number_of("!="): return !equal(a, b);
    case number_of("@"): throw_bad_input("expected numbers, found the matrix product \"@\"");
    default: break;
  }
  require_number(a);
  require_number(b);
  switch (operation) {
    case number_of("<"): return compare(a, b) < 0;
    case number_of("<="): return compare(a, b) <= 0;
    case number_of(">"): return compare(a, b) > 0;
    case number_of(">="): return compare(a, b) >= 0;
    default: break;
  }
  if (a.is_integer() && b.is_integer()) return apply_integers(symbol, a.integer(), b.integer());
  return apply_reals(symbol, a.real(), b.real());
}

Number negated(const Number& a) {
  require_number(a);
  if (a.is_double()) return -a.real();
  if (a.integer() == INT64_MIN) refuse_overflow("-", 0, a.integer());
  return -a.integer();
}

bool is_function(std::string_view name) { return find_function(name) != nullptr; }

Number apply_function(std::string_view name, const Number& a) {
  const FunctionOfReal function = find_function(name);
  require_number(a);
  const bool rounds = name == "ceil" || name == "floor";
  if (a.is_integer() && rounds) return a;
  const double result = function(a.real());
  if (rounds) return Number(result).integer();
  if (std::isfinite(a.real()) && !std::isfinite(result))
    throw_bad_input("{}({}) is not a {} number", name, to_string(a),
                    std::isnan(result) ? "real" : "finite");
  return result;
}

}  // namespace shardproof::detail
