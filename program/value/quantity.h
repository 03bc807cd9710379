// Quantity: a number with a unit, for sizes, times and rates in scenario files. Examples: "80 GB",
// "16 MiB", "25 us", "50 GB/s", "400 Gb/s", "50 GFLOP/s". KB is 1000 bytes, KiB 1024. Bytes and
// picoseconds are whole and exact: 0.5 B is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof {

enum class Unit { none, bytes, time, bandwidth, arithmetic };
std::string_view name(Unit unit);     // "bytes", "a time", for messages
std::string_view example(Unit unit);  // "16 MiB", "25 us"

struct Quantity {
  Unit unit = Unit::bytes;
  int64_t whole = 0;  // bytes or picoseconds, by `unit`
  double rate = 0;    // bytes or operations per second
  bool operator==(const Quantity&) const = default;
};

// Returns nullopt if the text is not a number and a known unit. Throws Error(bad_input) if it is
// one that is not whole or does not fit in 64 bits.
std::optional<Quantity> find_quantity(std::string_view text);
// Returns a quantity of `unit`. Throws Error(bad_input) with Where::column for any other text.
Quantity parse_quantity(std::string_view text, Unit unit);

// Returns the shortest text that parses back: "80 GB", "16 MiB".
std::string to_string(const Quantity& quantity);

}  // namespace shardproof
