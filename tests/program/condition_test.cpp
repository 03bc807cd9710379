// Tests condition.h and quantity.h.
#include "shardproof/program/syntax/condition.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof::condition_test {
namespace {

NumberScope steps_scope() {
  NumberScope scope;
  scope.name = [](const std::string& name) -> std::optional<Number> {
    return name == "steps" ? std::optional(Number(3)) : std::nullopt;
  };
  scope.function = [](const std::string& verb, const std::string&) -> std::optional<Number> {
    return verb == "size" ? std::optional(Number(4)) : std::nullopt;
  };
  return scope;
}

TEST(Quantity, KnownValues) {
  EXPECT_EQ(parse_quantity("80 GB", Unit::bytes).whole, 80'000'000'000);
  EXPECT_EQ(parse_quantity("16 MiB", Unit::bytes).whole, 16 << 20);
  EXPECT_EQ(parse_quantity(" 1.5KB ", Unit::bytes).whole, 1500);
  EXPECT_EQ(parse_quantity("0.10 KB", Unit::bytes).whole, 100);
  EXPECT_EQ(parse_quantity("0.5 KiB", Unit::bytes).whole, 512);
  EXPECT_EQ(parse_quantity("9223372036854775807 B", Unit::bytes).whole, INT64_MAX);
  EXPECT_EQ(parse_quantity("25 us", Unit::time).whole, 25'000'000);
  EXPECT_EQ(parse_quantity("2.5 ns", Unit::time).whole, 2500);
  EXPECT_EQ(parse_quantity("50 GB/s", Unit::bandwidth).rate, 50e9);
  EXPECT_EQ(parse_quantity("400 Gb/s", Unit::bandwidth).rate, 50e9);
  EXPECT_EQ(parse_quantity("1 GiB/s", Unit::bandwidth).rate, 0x1p30);
}

TEST(Quantity, Refusals) {
  const auto message = [](const std::string& text, Unit unit) -> std::string {
    try {
      return to_string(parse_quantity(text, unit));
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("80", Unit::bytes),
            "column 1: expected bytes such as \"16 MiB\", found \"80\"");
  EXPECT_EQ(message("80 GB", Unit::time),
            "column 1: expected a time such as \"25 us\", found \"80 GB\"");
  EXPECT_EQ(message("80 Gb", Unit::bandwidth),
            "column 1: expected a bandwidth such as \"50 GB/s\", found \"80 Gb\"");
  EXPECT_EQ(message("0.5 B", Unit::bytes),
            "expected a whole number of bytes below 2^63, found 0.5 B, which is not whole");
  EXPECT_EQ(message("10000 PB", Unit::bytes),
            "expected a whole number of bytes below 2^63, found 10000 PB, which is too large");
  EXPECT_EQ(message("0.1 ps", Unit::time),
            "expected a whole number of picoseconds below 2^63, found 0.1 ps");
  EXPECT_THROW(parse_quantity("-1 B", Unit::bytes), Error);
  EXPECT_THROW(parse_quantity("1e3 B", Unit::bytes), Error);
  EXPECT_THROW(parse_quantity(std::string(400, '9') + " GB/s", Unit::bandwidth), Error);
  EXPECT_EQ(find_quantity("2 * 3"), std::nullopt);
  EXPECT_EQ(find_quantity(""), std::nullopt);
}

TEST(QuantityLaw, PrintedQuantities_ParseBack) {
  const Rng rng(21, 0);
  for (uint64_t draw = 0; draw < 3000; ++draw) {
    const auto whole = static_cast<int64_t>(rng.bits(draw) >> (1 + draw % 63));
    const double rate = std::ldexp(rng.uniform(draw), static_cast<int>(draw % 80) - 10);
    for (const Quantity& quantity :
         {Quantity{Unit::bytes, whole, 0}, Quantity{Unit::time, whole, 0},
          Quantity{Unit::bandwidth, 0, rate}}) {
      const std::string text = to_string(quantity);
      ASSERT_EQ(parse_quantity(text, quantity.unit), quantity) << "seed 21: " << text;
    }
  }
  EXPECT_EQ(to_string(Quantity{Unit::bytes, 80'000'000'000, 0}), "80 GB");
  EXPECT_EQ(to_string(Quantity{Unit::bytes, 16 << 20, 0}), "16 MiB");
  EXPECT_EQ(to_string(Quantity{Unit::bytes, 0, 0}), "0 B");
  EXPECT_EQ(to_string(Quantity{Unit::bandwidth, 0, 50e9}), "50 GB/s");
  EXPECT_EQ(to_string(Quantity{Unit::bandwidth, 0, 0.25}), "0.25 B/s");
}

TEST(Condition, Forms) {
  const NumberScope scope = steps_scope();
  const auto condition = [&](const std::string& text) { return Condition::parse(text, scope); };
  EXPECT_TRUE(condition("2 * steps").holds(6));
  EXPECT_FALSE(condition("2 * steps").holds(7));
  EXPECT_TRUE(condition("<= 4").holds(4));
  EXPECT_FALSE(condition("< 4").holds(4));
  EXPECT_TRUE(condition("> 0").holds(0.5));
  EXPECT_FALSE(condition(">= steps").holds(2));
  EXPECT_TRUE(condition("2 .. size(tp)").holds(4));
  EXPECT_TRUE(condition("2 .. size(tp)").holds(2));
  EXPECT_FALSE(condition("2 .. size(tp)").holds(5));
  EXPECT_TRUE(condition("1.49 .. 1.51").holds(1.5));
  EXPECT_TRUE(condition("< 80 GB").holds(int64_t{79'999'999'999}));
  EXPECT_FALSE(condition("17 GB .. 80 GB").holds(int64_t{1} << 30));
  EXPECT_EQ(condition("< 80 GB").unit(), Unit::bytes);
  EXPECT_EQ(condition("25 us").unit(), Unit::time);
  EXPECT_FALSE(condition("> 0").holds(std::nan("")));
  EXPECT_TRUE(Condition::equal_to(Number(20)).holds(20.0));
}

TEST(Condition, FractionsAreComparedExactly) {
  const int64_t large = (int64_t{1} << 62) + 1;
  EXPECT_TRUE(Condition::parse("< 54").holds(Fraction(160, 3)));
  EXPECT_TRUE(Condition::equal_to(Number(large)).holds(Fraction(large)));
  EXPECT_FALSE(Condition::equal_to(Number(large)).holds(Fraction(large - 1)));
  EXPECT_TRUE(Condition::equal_to(Number(large)).holds(large));
  EXPECT_FALSE(Condition::parse("<= 0").holds(Fraction(1, large)));
  EXPECT_TRUE(Condition::parse("160 / 3").holds(Fraction(160, 3)));
  EXPECT_TRUE(Condition::parse("0.1").holds(Fraction(1, 10)));
}

TEST(Condition, PrintedConditions_ParseBack) {
  for (const char* text : {"4", "-4", "1.5", "<= 4", "< 80 GB", "> 0", ">= 25 us", "1.0 .. 1.5",
                           "17 GB .. 80 GB", "-2 .. -1", "> 50 GB/s"}) {
    const Condition condition = Condition::parse(text);
    EXPECT_EQ(to_string(condition), text);
    EXPECT_TRUE(Condition::parse(to_string(condition)) == condition);
  }
  EXPECT_EQ(to_string(Condition::parse("2..size(tp)", steps_scope())), "2 .. 4");
}

TEST(Condition, Refusals) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      return to_string(Condition::parse(text));
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message(""), "column 1: expected a value, found the end of the line");
  EXPECT_EQ(message("<= "), "column 4: expected a value, found the end of the line");
  EXPECT_EQ(message("2 .. n"), "column 6: unknown name \"n\"");
  EXPECT_EQ(message("5 .. 3"),
            "column 3: expected a range from the smaller to the larger end, found 5 .. 3");
  EXPECT_EQ(message("5 .. 3 GB"),
            "column 3: expected two ends of one unit, found a number and bytes");
  EXPECT_EQ(message("'a'"), "column 1: expected a number, found 'a'");
  EXPECT_EQ(message("> 3 GX"),
            "column 5: unknown unit \"GX\"; quantities are such as 25 us, 80 GB or 50 GB/s");
  EXPECT_EQ(message("== 3"), "column 1: expected a value, found \"==\"");
}

}  // namespace
}  // namespace shardproof::condition_test
