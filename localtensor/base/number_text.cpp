// Implements number_text.h.
#include "shardproof/localtensor/base/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace shardproof {
namespace {

constexpr double kRoundedFrom = 1e4, kPoweredFrom = 1e12;

// Returns the number in scientific notation without leading zeros in the exponent: "3.1e-3".
std::string with_exponent(double number) {
  std::string text = fmt::format("{:.1e}", number);
  const size_t exponent = text.find('e') + 1;
  if (text[exponent] == '+') text.erase(exponent, 1);
  const size_t digits = text[exponent] == '-' ? exponent + 1 : exponent;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

}  // namespace

std::string grouped_number(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = digits.front() == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string rough_number(double number) {
  const double size = std::abs(number);
  if (!std::isfinite(number)) return fmt::format("{}", number);
  return size == 0 || (size >= 0.1 && size < 99.5) ? fmt::format("{:.2g}", number)
                                                   : with_exponent(number);
}

std::string factor_text(double factor) {
  if (std::isinf(factor)) return "infinitely many";
  if (!(factor < kPoweredFrom)) return with_exponent(factor);
  if (factor < kRoundedFrom) return grouped_number(static_cast<int64_t>(std::ceil(factor)));
  const double unit = std::pow(10, std::floor(std::log10(factor)) - 1);
  return grouped_number(static_cast<int64_t>(std::llround(factor / unit) * std::llround(unit)));
}

}  // namespace shardproof
