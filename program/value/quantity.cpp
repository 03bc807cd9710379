// Implements quantity.h.
#include "shardproof/program/value/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

__extension__ typedef __int128 Int128;

struct ByteUnit {
  std::string_view name;
  int64_t bytes;
};
// If two units give equally short text, bytes_text uses the first.
constexpr std::array<ByteUnit, 11> kByteUnits = {{{"PB", 1'000'000'000'000'000},
                                                  {"TB", 1'000'000'000'000},
                                                  {"GB", 1'000'000'000},
                                                  {"MB", 1'000'000},
                                                  {"KB", 1'000},
                                                  {"PiB", int64_t{1} << 50},
                                                  {"TiB", int64_t{1} << 40},
                                                  {"GiB", int64_t{1} << 30},
                                                  {"MiB", int64_t{1} << 20},
                                                  {"KiB", int64_t{1} << 10},
                                                  {"B", 1}}};
constexpr std::array<std::string_view, 5> kTimeUnits = {"s", "ms", "us", "ns", "ps"};

struct RateUnit {
  std::string_view name;
  std::string_view exponent;  // appended to the digits, so that their conversion rounds only once
  double factor;              // a power of two: exact
};
constexpr std::array<RateUnit, 14> kRateUnits = {{{"TB/s", "e12", 1},
                                                  {"GB/s", "e9", 1},
                                                  {"MB/s", "e6", 1},
                                                  {"KB/s", "e3", 1},
                                                  {"B/s", "", 1},
                                                  {"TiB/s", "", 0x1p40},
                                                  {"GiB/s", "", 0x1p30},
                                                  {"MiB/s", "", 0x1p20},
                                                  {"KiB/s", "", 0x1p10},
                                                  {"Tb/s", "e12", 0.125},
                                                  {"Gb/s", "e9", 0.125},
                                                  {"Mb/s", "e6", 0.125},
                                                  {"Kb/s", "e3", 0.125},
                                                  {"b/s", "", 0.125}}};
constexpr size_t kDecimalRates = 5;
constexpr std::array<RateUnit, 5> kArithmeticUnits = {{{"PFLOP/s", "e15", 1},
                                                       {"TFLOP/s", "e12", 1},
                                                       {"GFLOP/s", "e9", 1},
                                                       {"MFLOP/s", "e6", 1},
                                                       {"FLOP/s", "", 1}}};

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_outer_spaces(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(' '), text.size());
  text = text.substr(first);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// "1.5 GB" in its two parts; `digits` is empty for any other text.
struct Parts {
  std::string_view digits, unit;
};

Parts cut(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_decimal_digit(text[end])) ++end;
  if (end == 0) return {};
  if (end + 1 < text.size() && text[end] == '.' && is_decimal_digit(text[end + 1])) {
    ++end;
    while (end < text.size() && is_decimal_digit(text[end])) ++end;
  }
  return {text.substr(0, end), without_outer_spaces(text.substr(end))};
}

int64_t exact_bytes(const Parts& parts, const ByteUnit& unit) {
  const auto refuse = [&](std::string_view why) {
    throw_bad_input("expected a whole number of bytes below 2^63, found {} {}, which {}",
                    parts.digits, unit.name, why);
  };
  std::string_view digits = parts.digits;
  if (digits.find('.') != std::string_view::npos)
    digits = digits.substr(0, digits.find_last_not_of('0') + 1);
  Int128 mantissa = 0, scale = 1;
  bool behind_point = false;
  for (const char c : digits) {
    if (c == '.') {
      behind_point = true;
      continue;
    }
    mantissa = mantissa * 10 + (c - '0');
    if (behind_point) scale *= 10;
    if (mantissa > INT64_MAX || scale > INT64_MAX) refuse("has too many digits");
  }
  const Int128 scaled = mantissa * unit.bytes;
  if (scaled % scale != 0) refuse("is not whole");
  if (scaled / scale > INT64_MAX) refuse("is too large");
  return static_cast<int64_t>(scaled / scale);
}

double rate_of(const Parts& parts, const RateUnit& unit) {
  const std::string text = fmt::format("{}{}", parts.digits, unit.exponent);
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    throw_bad_input("expected a rate within the range of a double, found {} {}", parts.digits,
                    unit.name);
  return value * unit.factor;
}

template <typename Units>
auto find_unit(const Units& units, std::string_view name) {
  return std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.name == name; });
}

// Returns a hint such as `; did you mean "KB"?`, or "" if no unit of the kind resembles the text.
std::string hint_of_unit(std::string_view text, Unit kind) {
  NearestName nearest(text);
  const auto offer = [&](const auto& units) {
    for (const auto& unit : units) nearest.offer(unit.name);
  };
  if (kind == Unit::bytes) offer(kByteUnits);
  if (kind == Unit::bandwidth) offer(kRateUnits);
  if (kind == Unit::arithmetic) offer(kArithmeticUnits);
  if (kind == Unit::time)
    for (const std::string_view unit : kTimeUnits) nearest.offer(unit);
  return nearest.hint();
}

std::string bytes_text(int64_t bytes) {
  const ByteUnit* best = &kByteUnits.back();
  for (const ByteUnit& unit : kByteUnits)
    if (bytes != 0 && bytes % unit.bytes == 0 && bytes / unit.bytes < bytes / best->bytes)
      best = &unit;
  return fmt::format("{} {}", bytes / best->bytes, best->name);
}

std::string rate_text(double rate, std::span<const RateUnit> units) {
  for (const RateUnit& unit : units) {
    const double power = rate_of({"1", ""}, unit);
    const std::string text = fmt::format("{} {}", rate / power, unit.name);
    const std::optional<Quantity> back = find_quantity(text);
    if (rate >= power && back && back->rate == rate) return text;
  }
  // Prints every digit of the double, because the language has no exponents before a unit.
  std::string digits = fmt::format("{:.1074f}", rate);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return fmt::format("{} {}", digits, units.back().name);
}

}  // namespace

std::string_view name(Unit unit) {
  switch (unit) {
    case Unit::none: return "a number";
    case Unit::bytes: return "bytes";
    case Unit::time: return "a time";
    case Unit::bandwidth: return "a bandwidth";
    case Unit::arithmetic: return "a rate of arithmetic";
  }
  SP_UNREACHABLE("unit {}", static_cast<int>(unit));
}

std::string_view example(Unit unit) {
  switch (unit) {
    case Unit::none: return "4";
    case Unit::bytes: return "16 MiB";
    case Unit::time: return "25 us";
    case Unit::bandwidth: return "50 GB/s";
    case Unit::arithmetic: return "50 GFLOP/s";
  }
  SP_UNREACHABLE("unit {}", static_cast<int>(unit));
}

std::optional<Quantity> find_quantity(std::string_view text) {
  const Parts parts = cut(without_outer_spaces(text));
  if (parts.digits.empty()) return std::nullopt;
  if (const auto unit = find_unit(kByteUnits, parts.unit); unit != kByteUnits.end())
    return Quantity{Unit::bytes, exact_bytes(parts, *unit), 0};
  if (const auto unit = find_unit(kRateUnits, parts.unit); unit != kRateUnits.end())
    return Quantity{Unit::bandwidth, 0, rate_of(parts, *unit)};
  if (const auto unit = find_unit(kArithmeticUnits, parts.unit); unit != kArithmeticUnits.end())
    return Quantity{Unit::arithmetic, 0, rate_of(parts, *unit)};
  if (std::find(kTimeUnits.begin(), kTimeUnits.end(), parts.unit) == kTimeUnits.end())
    return std::nullopt;
  const std::optional<Duration> time =
      parse_duration(fmt::format("{} {}", parts.digits, parts.unit));
  if (!time)
    throw_bad_input("expected a whole number of picoseconds below 2^63, found {} {}", parts.digits,
                    parts.unit);
  return Quantity{Unit::time, time->ps, 0};
}

Quantity parse_quantity(std::string_view text, Unit unit) {
  const std::optional<Quantity> found = find_quantity(text);
  if (found && found->unit == unit) return *found;
  throw Error(ErrorKind::bad_input,
              fmt::format("expected {} such as \"{}\", found \"{}\"{}", name(unit), example(unit),
                          text, hint_of_unit(cut(without_outer_spaces(text)).unit, unit)),
              Where{"", "", 0, 1});
}

std::string to_string(const Quantity& quantity) {
  if (quantity.unit == Unit::bandwidth)
    return rate_text(quantity.rate, std::span(kRateUnits).first(kDecimalRates));
  if (quantity.unit == Unit::arithmetic) return rate_text(quantity.rate, kArithmeticUnits);
  if (quantity.unit == Unit::time) return to_string(Duration{quantity.whole});
  return bytes_text(quantity.whole);
}

}  // namespace shardproof
