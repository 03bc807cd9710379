// Tests fraction.h.
#include "shardproof/localtensor/base/fraction.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::fraction_test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

template <typename F>
void for_pairs(F check) {
  for (int64_t a = -6; a <= 6; ++a)
    for (int64_t b = 1; b <= 6; ++b)
      for (int64_t c = -6; c <= 6; ++c)
        for (int64_t d = 1; d <= 6; ++d) check(Fraction(a, b), Fraction(c, d));
}

TEST(Fraction, Arithmetic_FollowsTheFieldLaws) {
  for_pairs([](Fraction x, Fraction y) {
    EXPECT_EQ(x + y, y + x);
    EXPECT_EQ(x + y - y, x);
    EXPECT_EQ(x * (y + 1), x * y + x);
    if (y != 0) {
      EXPECT_EQ(x / y * y, x);
    }
    EXPECT_DOUBLE_EQ((x * y).to_double(), x.to_double() * y.to_double());
  });
}

TEST(Fraction, IsOrderedAndInLowestTerms) {
  for_pairs([](Fraction x, Fraction y) {
    EXPECT_EQ(x < y, x.num() * y.den() < y.num() * x.den());
    EXPECT_EQ(x == y, !(x < y) && !(y < x));
    EXPECT_EQ(std::gcd(x.num(), x.den()), 1);
    EXPECT_GT(x.den(), 0);
  });
  EXPECT_EQ(Fraction(3, -6), Fraction(-1, 2));
}

TEST(Fraction, TextParsesBack) {
  for_pairs([](Fraction x, Fraction) { EXPECT_EQ(parse_fraction(to_string(x)), x); });
  EXPECT_EQ(to_string(Fraction(320, 6)), "160/3");
  EXPECT_EQ(to_string(Fraction(36)), "36");
  for (const char* text : {"", "a", "1/", "/2", "1/0", "1/-2", "1 /2", "99999999999999999999"})
    EXPECT_EQ(parse_fraction(text), std::nullopt) << text;
}

TEST(Fraction, ResultsBeyond64Bits_Throw) {
  EXPECT_EQ(Fraction(kMin, 2), Fraction(kMin / 2));
  EXPECT_EQ(Fraction(kMax, 3) * Fraction(3, kMax), Fraction(1));
  EXPECT_LT(Fraction(kMax - 1, kMax), Fraction(1));
  EXPECT_THROW(Fraction(kMax) + 1, Error);
  EXPECT_THROW(Fraction(kMin, -1), Error);
  EXPECT_THROW(Fraction(1, kMax) * Fraction(1, 2), Error);
  EXPECT_THROW(Fraction(1, 0), Error);
  EXPECT_THROW(Fraction(1) / Fraction(0), Error);
}

}  // namespace
}  // namespace shardproof::fraction_test
