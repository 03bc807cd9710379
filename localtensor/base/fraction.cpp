// Implements fraction.h. Intermediate terms are 128 bits wide, reduced, and then narrowed.
#include "shardproof/localtensor/base/fraction.h"

#include <charconv>
#include <limits>
#include <numeric>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Holds a product of two 64-bit integers, and a sum of two such products.
__extension__ typedef __int128 Wide;

bool is_narrow(Wide x) {
  return x <= std::numeric_limits<int64_t>::max() && x > std::numeric_limits<int64_t>::min();
}

Wide gcd(Wide a, Wide b) {
  while (b != 0) {
    // Wide divisions take long.
    if (is_narrow(a) && is_narrow(b))
      return std::gcd(static_cast<int64_t>(a), static_cast<int64_t>(b));
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

int64_t narrowed(Wide x) {
  if (x > std::numeric_limits<int64_t>::max() || x < std::numeric_limits<int64_t>::min())
    throw Error(ErrorKind::limit, "an exact fraction needs more than 64 bits");
  return static_cast<int64_t>(x);
}

struct Terms {
  int64_t num, den;
};

Terms lowest(Wide num, Wide den) {
  if (den == 0) throw_bad_input("expected a fraction with a denominator other than 0, found 0");
  if (den == 1) return {narrowed(num), 1};
  Wide divisor = gcd(num, den);
  if (den < 0) divisor = -divisor;
  return {narrowed(num / divisor), narrowed(den / divisor)};
}

Fraction fraction_of(Wide num, Wide den) {
  const Terms terms = lowest(num, den);
  return {terms.num, terms.den};
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (trouble != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Fraction::Fraction(int64_t num, int64_t den) {
  const Terms terms = lowest(num, den);
  num_ = terms.num;
  den_ = terms.den;
}

Fraction operator+(Fraction a, Fraction b) {
  int64_t whole = 0;
  if (a.den_ == 1 && b.den_ == 1 && !__builtin_add_overflow(a.num_, b.num_, &whole)) return whole;
  return fraction_of(Wide{a.num_} * b.den_ + Wide{b.num_} * a.den_, Wide{a.den_} * b.den_);
}

Fraction operator-(Fraction a, Fraction b) {
  return fraction_of(Wide{a.num_} * b.den_ - Wide{b.num_} * a.den_, Wide{a.den_} * b.den_);
}

Fraction operator*(Fraction a, Fraction b) {
  return fraction_of(Wide{a.num_} * b.num_, Wide{a.den_} * b.den_);
}

Fraction operator/(Fraction a, Fraction b) {
  return fraction_of(Wide{a.num_} * b.den_, Wide{a.den_} * b.num_);
}

std::strong_ordering operator<=>(Fraction a, Fraction b) {
  const Wide left = Wide{a.num_} * b.den_, right = Wide{b.num_} * a.den_;
  if (left == right) return std::strong_ordering::equal;
  return left < right ? std::strong_ordering::less : std::strong_ordering::greater;
}

std::string to_string(Fraction f) {
  return f.den() == 1 ? std::to_string(f.num()) : fmt::format("{}/{}", f.num(), f.den());
}

std::optional<Fraction> parse_fraction(std::string_view text) {
  const size_t slash = text.find('/');
  const auto num = parse_integer(text.substr(0, slash));
  if (slash == text.npos) return num ? std::optional<Fraction>(*num) : std::nullopt;
  const auto den = parse_integer(text.substr(slash + 1));
  if (!num || !den || *den <= 0) return std::nullopt;
  return Fraction(*num, *den);
}

}  // namespace shardproof
