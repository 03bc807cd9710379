// Fraction: an exact fraction of 64-bit integers, for the bytes that a rank sends on average
// ("2 * 3/4 S").
// Invariant: in lowest terms with a positive denominator, so that equal fractions have equal parts.
// A result that does not fit into 64 bits throws Error(limit).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof {

class Fraction {
 public:
  Fraction(int64_t whole = 0) : num_(whole) {}
  Fraction(int64_t num, int64_t den);  // throws Error(bad_input) if den == 0
  int64_t num() const { return num_; }
  int64_t den() const { return den_; }
  double to_double() const { return static_cast<double>(num_) / static_cast<double>(den_); }
  friend Fraction operator+(Fraction a, Fraction b);
  friend Fraction operator-(Fraction a, Fraction b);
  friend Fraction operator*(Fraction a, Fraction b);
  friend Fraction operator/(Fraction a, Fraction b);  // throws Error(bad_input) if b == 0
  friend bool operator==(Fraction a, Fraction b) { return a.num_ == b.num_ && a.den_ == b.den_; }
  friend std::strong_ordering operator<=>(Fraction a, Fraction b);

 private:
  int64_t num_ = 0, den_ = 1;
};

std::string to_string(Fraction f);  // "36", "160/3"
// Returns the inverse of to_string; nullopt for other text.
std::optional<Fraction> parse_fraction(std::string_view text);

}  // namespace shardproof
