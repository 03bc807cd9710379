// Duration: virtual time in integer picoseconds, so that sums do not depend on their order. Also
// used for a point in time, counted from the start of a run. The range is 106 days (2^63 ps);
// arithmetic that leaves it throws Error(limit).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof {

struct Duration {
  int64_t ps = 0;
  auto operator<=>(const Duration&) const = default;
};

// Throws Error(limit): a time is out of range.
[[noreturn]] void throw_duration_overflow();

inline Duration operator+(Duration a, Duration b) {
  if (__builtin_add_overflow(a.ps, b.ps, &a.ps)) throw_duration_overflow();
  return a;
}
inline Duration operator-(Duration a, Duration b) {
  if (__builtin_sub_overflow(a.ps, b.ps, &a.ps)) throw_duration_overflow();
  return a;
}
inline Duration operator*(Duration a, int64_t times) {
  if (__builtin_mul_overflow(a.ps, times, &a.ps)) throw_duration_overflow();
  return a;
}
inline Duration operator*(int64_t times, Duration a) { return a * times; }
inline Duration operator/(Duration a, int64_t parts) { return {a.ps / parts}; }
inline Duration& operator+=(Duration& a, Duration b) { return a = a + b; }
inline Duration& operator-=(Duration& a, Duration b) { return a = a - b; }

// Returns the duration to the nearest picosecond. Throws Error(limit) if it is out of range or NaN.
Duration duration_of_seconds(double seconds);
inline double to_seconds(Duration d) { return static_cast<double>(d.ps) * 1e-12; }

// Returns the exact text in the largest unit of ps, ns, us, ms, s that is not longer than `d`:
// "25 us", "11.300001 us".
std::string to_string(Duration d);
// Returns the text with one decimal, for reports: "11.3 us", "1.0 ms", "0 ps".
std::string rounded_text(Duration d);
// Returns the inverse of to_string; the space may be missing. Returns nullopt for any other text,
// also for a fraction of a picosecond.
std::optional<Duration> parse_duration(std::string_view text);

}  // namespace shardproof
