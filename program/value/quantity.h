// Quantity: a number with a unit, as the scenario language writes sizes, times and rates: "80 GB",
// "16 MiB", "25 us", "50 GB/s", "400 Gb/s". KB is 1000, KiB 1024. Bytes and times are whole and
// exact: 0.5 B is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof {

enum class Unit { none, bytes, time, bandwidth };
std::string_view name(Unit unit);  // "bytes", "a time", for messages

struct Quantity {
  Unit unit = Unit::bytes;
  int64_t whole = 0;  // bytes, or picoseconds
  double rate = 0;    // of a bandwidth: bytes per second
  bool operator==(const Quantity&) const = default;
};

// Nothing when the text is not a number followed by a known unit; Error when it is one that does
// not fit.
std::optional<Quantity> find_quantity(std::string_view text);
// Error(bad_input) with Where::column for anything but a quantity of this unit.
Quantity parse_quantity(std::string_view text, Unit unit);

std::string to_string(
    const Quantity& quantity);  // the shortest that parses back: "80 GB", "16 MiB"

}  // namespace shardproof
