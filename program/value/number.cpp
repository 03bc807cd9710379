// Implements number.h.
#include "shardproof/program/value/number.h"

#include <fmt/format.h>

#include <cmath>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::string_view kind_of(const Number& number) {
  if (number.is_integer()) return "the integer";
  if (number.is_double()) return "the number";
  if (number.is_bool()) return "the truth value";
  return number.is_text() ? "the text" : "the list";
}

[[noreturn]] void refuse(std::string_view expected, const Number& number) {
  throw_bad_input("expected {}, found {} {}", expected, kind_of(number), to_string(number));
}

// True if a double equals a 64-bit integer; 2^63 itself does not fit.
bool is_whole(double value) {
  return std::trunc(value) == value && value >= -0x1p63 && value < 0x1p63;
}

}  // namespace

int64_t Number::integer() const {
  if (is_integer()) return std::get<int64_t>(value_);
  if (is_double() && is_whole(std::get<double>(value_)))
    return static_cast<int64_t>(std::get<double>(value_));
  refuse("an integer", *this);
}

double Number::real() const {
  if (is_double()) return std::get<double>(value_);
  if (is_integer()) return static_cast<double>(std::get<int64_t>(value_));
  refuse("a number", *this);
}

bool Number::truth() const {
  if (is_bool()) return std::get<bool>(value_);
  if (is_integer()) return std::get<int64_t>(value_) != 0;
  refuse("a condition", *this);
}

const std::string& Number::text() const {
  if (!is_text()) refuse("a text", *this);
  return std::get<std::string>(value_);
}

const Number::List& Number::list() const {
  if (!is_list()) refuse("a list", *this);
  return *std::get<SharedList>(value_);
}

bool Number::operator==(const Number& other) const {
  if (is_list() && other.is_list()) return list() == other.list();
  return value_ == other.value_;
}

std::string to_string(const Number& number) {
  // The language has no negative literals, and 9223372036854775808 does not fit in 64 bits.
  if (number.is_integer() && number.integer() == INT64_MIN) return "(-9223372036854775807 - 1)";
  if (number.is_integer()) return fmt::format("{}", number.integer());
  if (number.is_bool()) return number.truth() ? "true" : "false";
  if (number.is_text()) return fmt::format("'{}'", number.text());
  if (number.is_double()) {
    const double value = number.real();
    if (std::isnan(value)) return "nan";
    // Text without a point or an exponent would parse back as an integer.
    std::string text = fmt::format("{}", value);
    return text.find_first_of(".enf") == std::string::npos ? text + ".0" : text;
  }
  std::string text = "[";
  for (const Number& item : number.list()) text += (text.size() > 1 ? ", " : "") + to_string(item);
  return text + "]";
}

}  // namespace shardproof
