// Tests evaluate.h.
#include "shardproof/program/syntax/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof::evaluate_test {
namespace {

NumberScope test_scope() {
  static const std::map<std::string, Number> kNames = {
      {"n", Number(7)},
      {"i", Number(2)},
      {"mode", Number(std::string("ring"))},
      {"h2", Number(20)},
      {"rank", Number(3)},
      {"counts", Number(Number::List{Number::List{1, 2, 0}, Number::List{0, 1, 3}})}};
  NumberScope scope;
  scope.name = [](const std::string& name) -> std::optional<Number> {
    const auto found = kNames.find(name);
    return found == kNames.end() ? std::nullopt : std::optional(found->second);
  };
  scope.function = [](const std::string& verb,
                      const std::string& argument) -> std::optional<Number> {
    if (verb == "size" && argument == "tp") return Number(4);
    if (verb == "dim" && argument == "x, 3") return Number(64);
    return std::nullopt;
  };
  return scope;
}

std::string value_of(const std::string& text) {
  try {
    return to_string(evaluate(parse_expression(text), test_scope()));
  } catch (const Error& error) {
    return error.what();
  }
}

struct Case {
  const char* text;
  const char* value;
};

TEST(Evaluate, Values) {
  const Case cases[] = {
      {"2 + 3 * 4", "14"},
      {"(2 + 3) * 4", "20"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"-7.5 // 2", "-4.0"},
      {"-7.5 % 2", "0.5"},
      {"8 / 4", "2"},
      {"1 / 4", "0.25"},
      {"1/1024", "0.0009765625"},
      {"2 ** 3 ** 2", "512"},
      {"-2 ** 2", "-4"},
      {"2 ** -1", "0.5"},
      {"(-1) ** 9223372036854775807", "-1"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775807 - 1", "(-9223372036854775807 - 1)"},
      {"(-9223372036854775807 - 1) % -1", "0"},
      {"1.5 + 1", "2.5"},
      {"2.0", "2.0"},
      {"inf > 10 ** 18", "true"},
      {"nan == nan", "false"},
      {"9007199254740993 == 9007199254740992.0", "false"},
      {"9007199254740993 > 9007199254740992.0", "true"},
      {"9223372036854775807 < 9223372036854775808.0", "true"},
      {"1 < 2 and not 2 < 1", "true"},
      {"false and 1 // 0 == 0", "false"},
      {"true or 1 // 0 == 0", "true"},
      {"mode == 'ring'", "true"},
      {"'h{i}/{mode}' == 'h2/ring'", "true"},
      {"[1, 2] == [1.0, 2]", "true"},
      {"min(3, 1, 2)", "1"},
      {"max([3, 1, 2.5])", "3"},
      {"ceil(n / 2)", "4"},
      {"ceil(-1.5)", "-1"},
      {"floor(-1.5)", "-2"},
      {"1 / sqrt(16)", "0.25"},
      {"exp(0) + log(1)", "1.0"},
      {"counts[1][2]", "3"},
      {"counts[-2][-3]", "1"},
      {"counts.T", "[[1, 0], [2, 1], [0, 3]]"},
      {"counts.T[i]", "[0, 3]"},
      {"[].T", "[]"},
      {"h{i}", "20"},
      {"h{4 // 2} + 1", "21"},
      {"size(tp) * dim(x, i + 1)", "256"},
      {"(rank + 3) % 6", "0"},
  };
  for (const Case& one : cases) EXPECT_EQ(value_of(one.text), one.value) << one.text;
}

TEST(Evaluate, Refusals) {
  const Case cases[] = {
      {"2 * m", "column 5: unknown name \"m\""},
      {"1 + 3 // 0", "column 5: division by zero: 3 // 0"},
      {"1.5 / 0", "column 1: division by zero: 1.5 / 0"},
      {"0 ** -1", "column 1: division by zero: 0 ** -1"},
      {"9223372036854775807 + 1",
       "column 1: overflow: 9223372036854775807 + 1 does not fit in 64 bits"},
      {"2 ** 63", "column 1: overflow: 2 ** 63 does not fit in 64 bits"},
      {"(-9223372036854775807 - 1) // -1",
       "column 1: overflow: -9223372036854775808 // -1 does not fit in 64 bits"},
      {"-(-9223372036854775807 - 1)",
       "column 1: overflow: 0 - -9223372036854775808 does not fit in 64 bits"},
      {"n + mode", "column 1: expected a number, found 'ring'"},
      {"true + 1", "column 1: expected a number, found true"},
      {"n == mode", "column 1: expected two values of one kind to compare, found 7 and 'ring'"},
      {"not 1.5", "column 1: expected a condition, found the number 1.5"},
      {"n @ n", "column 1: expected numbers, found the matrix product \"@\""},
      {"counts[2]", "column 1: index 2 is out of range for a list of 2"},
      {"counts[0:1]", "column 1: expected one index of a list, found a slice"},
      {"counts[0, 1]", "column 1: expected one index of a list, found several"},
      {"n[0]", "column 1: expected a list, found the integer 7"},
      {"[[1], [2, 3]].T", "column 1: expected rows of equal length under .T, found 1 and 2"},
      {"min()", "column 1: expected a number in min, found none"},
      {"ceil(1, 2)", "column 1: expected one number in ceil, found 2"},
      {"min(a=1)", "column 1: expected no keys in min, found \"a\""},
      {"sqrt(-8)", "column 1: sqrt(-8) is not a real number"},
      {"log(0)", "column 1: log(0) is not a finite number"},
      {"exp(1000)", "column 1: exp(1000) is not a finite number"},
      {"sqrt(mode)", "column 1: expected a number, found 'ring'"},
      {"ceil(1e300)", "column 1: expected an integer, found the number 1e+300"},
      {"1 + relu(tp)", "column 5: expected a number, found relu(tp), which is not a number here"},
      {"f(tp:R)", "column 3: expected a number, found the placements tp:R"},
      {"h{i - 3}", "column 1: expected a name from h{i - 3}, found \"h-1\""},
      {"h{counts}",
       "column 3: expected a number or a text in braces, found [[1, 2, 0], [0, 1, 3]]"},
      {"(-8) ** 0.5", "column 1: -8 ** 0.5 is not a real number"},
  };
  for (const Case& one : cases) EXPECT_EQ(value_of(one.text), one.value) << one.text;
}

// For b > 0, q = a // b is the only integer with q * b <= a < (q + 1) * b. The remainder is a % b =
// a - q * b.
TEST(EvaluateLaw, FlooredDivision) {
  const Rng rng(17, 0);
  const NumberScope scope = test_scope();
  for (uint64_t draw = 0; draw < 4000; draw += 2) {
    const int64_t a = rng.integer(draw, -1000, 1001);
    const int64_t b = rng.integer(draw + 1, -20, 21);
    if (b == 0) continue;
    const std::string left = "(" + std::to_string(a) + ")", right = "(" + std::to_string(b) + ")";
    const int64_t q = evaluate(parse_expression(left + " // " + right), scope).integer();
    const int64_t r = evaluate(parse_expression(left + " % " + right), scope).integer();
    ASSERT_EQ(q * b + r, a) << "seed 17: " << a << " by " << b;
    ASSERT_TRUE(r == 0 || (r > 0) == (b > 0)) << "seed 17: " << a << " by " << b;
    ASSERT_LT(std::abs(r), std::abs(b)) << "seed 17: " << a << " by " << b;
  }
}

TEST(EvaluateLaw, PrintedNumbers_ParseBack) {
  const Rng rng(18, 0);
  for (uint64_t draw = 0; draw < 2000; ++draw) {
    const auto integer = static_cast<int64_t>(rng.bits(draw));
    const double real = std::ldexp(rng.normal(draw), static_cast<int>(draw % 300) - 150);
    for (const Number& number : {Number(integer), Number(real)}) {
      const std::string text = to_string(number);
      ASSERT_EQ(evaluate(parse_expression(text), {}), number) << "seed 18: " << text;
    }
  }
  for (const Number& number : {Number(INT64_MIN), Number(-0.0), Number(1e22), Number(5e-324),
                               Number(-INFINITY), Number(true), Number(Number::List{1, 2.0})})
    EXPECT_EQ(to_string(evaluate(parse_expression(to_string(number)), {})), to_string(number));
}

TEST(Evaluate, WholeDoublesAreIntegers) {
  EXPECT_EQ(Number(4.0).integer(), 4);
  EXPECT_THROW(Number(4.5).integer(), Error);
  EXPECT_THROW(Number(9223372036854775808.0).integer(), Error);
  EXPECT_EQ(Number(-9223372036854775808.0).integer(), INT64_MIN);
  EXPECT_THROW(Number(NAN).integer(), Error);
  EXPECT_THROW(Number(true).integer(), Error);
  EXPECT_EQ(Number(3).real(), 3.0);
}

TEST(Evaluate, NamesAreVisited) {
  std::vector<std::string> seen;
  const auto visit = [&](const NameTemplate& name) { seen.push_back(to_string(name)); };
  visit_names(parse_expression("a[b:c, d].T + f(e, k=g) * h{j} - 'x{l}' ** -[m][0]"), visit);
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c", "d", "e", "g", "j", "h{j}", "l", "m"}));
}

TEST(Evaluate, TextsWithBraces_NeedNotBeNames) {
  const NumberScope scope = test_scope();
  EXPECT_EQ(fill_name(parse_expression("'ckpt/{rank - 4}'").name, scope), "ckpt/-1");
  EXPECT_EQ(fill_name(parse_expression("h{rank}_{i}").name, scope), "h3_2");
  EXPECT_THROW(fill_name(parse_expression("h{rank / 2}").name, scope), Error);
}

}  // namespace
}  // namespace shardproof::evaluate_test
