// Implements duration.h.
#include "shardproof/localtensor/base/duration.h"

#include <array>
#include <cmath>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

struct Unit {
  std::string_view name;
  uint64_t ps;
  int digits;  // decimals that are whole picoseconds
};
constexpr std::array<Unit, 5> kUnits = {{{"s", 1'000'000'000'000, 12},
                                         {"ms", 1'000'000'000, 9},
                                         {"us", 1'000'000, 6},
                                         {"ns", 1'000, 3},
                                         {"ps", 1, 0}}};

const Unit& unit_of(uint64_t ps) {
  for (const Unit& unit : kUnits)
    if (ps >= unit.ps) return unit;
  return kUnits.back();
}

uint64_t size_of_ps(Duration d) {
  return d.ps < 0 ? uint64_t{0} - static_cast<uint64_t>(d.ps) : static_cast<uint64_t>(d.ps);
}

const Unit* find_unit(std::string_view name) {
  for (const Unit& unit : kUnits)
    if (unit.name == name) return &unit;
  return nullptr;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes digits with at most one point from the front of `text`; returns their value in units of
// 10^-decimals. Example: "1.5" with 3 decimals is 1500. Returns nullopt if the value does not fit
// or has more decimals than that.
std::optional<uint64_t> take_decimal(std::string_view& text, int decimals) {
  uint64_t value = 0;
  int left = -1;  // decimals still to come; -1: no point has been read
  bool any = false;
  for (; !text.empty() && (is_digit(text[0]) || (text[0] == '.' && left < 0 && any));
       text.remove_prefix(1)) {
    if (text[0] == '.') {
      left = decimals;
      continue;
    }
    any = true;
    // A zero after the last picosecond changes nothing.
    if (left == 0 && text[0] == '0') continue;
    if (left == 0 || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(text[0] - '0'), &value))
      return std::nullopt;
    if (left > 0) --left;
  }
  if (!any) return std::nullopt;
  for (int i = left < 0 ? decimals : left; i > 0; --i)
    if (__builtin_mul_overflow(value, 10, &value)) return std::nullopt;
  return value;
}

}  // namespace

void throw_duration_overflow() { throw Error(ErrorKind::limit, "a time is longer than 106 days"); }

Duration duration_of_seconds(double seconds) {
  const double ps = seconds * 1e12;
  if (!(std::abs(ps) < 0x1p63)) throw_duration_overflow();
  return {std::llrint(ps)};
}

std::string to_string(Duration d) {
  const uint64_t size = size_of_ps(d);
  const Unit& unit = unit_of(size);
  std::string text = fmt::format("{}{}", d.ps < 0 ? "-" : "", size / unit.ps);
  if (const uint64_t rest = size % unit.ps; rest != 0) {
    std::string decimals = std::to_string(rest);
    decimals.insert(0, static_cast<size_t>(unit.digits) - decimals.size(), '0');
    decimals.erase(decimals.find_last_not_of('0') + 1);
    text += '.' + decimals;
  }
  return fmt::format("{} {}", text, unit.name);
}

std::string rounded_text(Duration d) {
  const uint64_t size = size_of_ps(d);
  const char* sign = d.ps < 0 ? "-" : "";
  if (size < 1000) return fmt::format("{}{} ps", sign, size);
  const Unit* unit = &unit_of(size);
  const auto tenths = [&] { return (size + unit->ps / 20) / (unit->ps / 10); };
  // Rounding may reach the next unit: 999.96 us is printed as 1.0 ms.
  if (tenths() >= 10'000 && unit != kUnits.data()) --unit;
  return fmt::format("{}{}.{} {}", sign, tenths() / 10, tenths() % 10, unit->name);
}

std::optional<Duration> parse_duration(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  const size_t name_at = text.find_first_not_of("0123456789.");
  if (name_at == text.npos) return std::nullopt;
  std::string_view unit_name = text.substr(name_at);
  while (!unit_name.empty() && unit_name[0] == ' ') unit_name.remove_prefix(1);
  const Unit* unit = find_unit(unit_name);
  if (unit == nullptr) return std::nullopt;
  std::string_view number = text.substr(0, name_at);
  const auto size = take_decimal(number, unit->digits);
  if (!size || !number.empty()) return std::nullopt;
  const uint64_t largest = uint64_t{1} << 63;
  if (*size > largest - (negative ? 0 : 1)) return std::nullopt;
  return Duration{static_cast<int64_t>(negative ? uint64_t{0} - *size : *size)};
}

}  // namespace shardproof
