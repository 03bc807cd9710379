// Duration: virtual time in integer picoseconds, so that sums do not depend on their order. Also a
// point in time, counted from the start of a run. Holds 106 days; more throws Error(limit).
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

[[noreturn]] void refuse_duration();

inline Duration operator+(Duration a, Duration b) {
  if (__builtin_add_overflow(a.ps, b.ps, &a.ps)) refuse_duration();
  return a;
}
inline Duration operator-(Duration a, Duration b) {
  if (__builtin_sub_overflow(a.ps, b.ps, &a.ps)) refuse_duration();
  return a;
}
inline Duration operator*(Duration a, int64_t times) {
  if (__builtin_mul_overflow(a.ps, times, &a.ps)) refuse_duration();
  return a;
}
inline Duration operator*(int64_t times, Duration a) { return a * times; }
inline Duration operator/(Duration a, int64_t parts) { return {a.ps / parts}; }
inline Duration& operator+=(Duration& a, Duration b) { return a = a + b; }
inline Duration& operator-=(Duration& a, Duration b) { return a = a - b; }

// To the nearest picosecond; Error(limit) when it does not fit or is not a number.
Duration duration_of_seconds(double seconds);
inline double to_seconds(Duration d) { return static_cast<double>(d.ps) * 1e-12; }

// Exact, in the largest unit of ps, ns, us, ms, s that is not larger: "25 us", "11.300001 us".
std::string to_string(Duration d);
// One decimal, for reports: "11.3 us", "1.0 ms", "0 ps".
std::string rounded_text(Duration d);
// Inverse of to_string; the space may be missing. Nothing for other text, also for a part of a
// picosecond.
std::optional<Duration> parse_duration(std::string_view text);

}  // namespace shardproof
