// Tests rank programs whose runs in other rounding directions end early, because an index leaves
// its table. Values after it are judged with the indices of the run to nearest. If that run ends
// early too, a note lists them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof::other_roundings_test {
namespace {

// Rounded to nearest these are 7 and 0. `high` is 8 if operations round up, `low` is -1 if they
// round down or toward zero; the table of the program has 8 rows.
struct Indices {
  std::string high, low;
};
const Indices kCasts = {"cast((a + b) * 10, i64)", "cast((a + c) * 10, i64) - 3"};
// Made from floats by comparisons, which the second run does not replace.
const Indices kComparisons = {"7 + cast(a + b >= 0.8, i64)", "0 - cast(a + c <= 0.3, i64)"};

Outcome outcome_of(const std::string& index, const std::string& line, const std::string& truth) {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  const std::string text = fmt::format(
      R"json({{"version": 1, "mesh": "tp=4", "dtype": "f64",
          "tensors": {{
            "a": {{"values": [0.1]}}, "b": {{"values": [0.7]}}, "c": {{"values": [0.2]}},
            "table": {{"shape": [8, 4], "fill": "ints(-4, 4)"}},
            "x": {{"shape": [64, 16], "placements": "tp:S(0)", "fill": "normal(0, 1)"}}}},
          "ranks": {{"all": ["e = embedding({0}, table)",
                             "m = all_reduce(sum(x, dim=0), sum, group=tp) / 64", "y = {1}"]}},
          "truth": ["e = embedding({0}, table)", "y = {2}"],
          "outputs": {{"e": "R", "y": "R"}}}})json",
      index, line, truth);
  return run_scenarios({load_text(text, "f.json")}, {""}, {}, kRegistries)
      .scenarios[0]
      .cases[0]
      .phases[0]
      .outcome;
}

// The columns of x minus their means add up to 0 apart from rounding; the truth is exactly 0.
Outcome signs_of_noise(const std::string& index) {
  return outcome_of(index, "sign(all_reduce(sum(x - m, dim=0), sum, group=tp))",
                    "0 * sum(x, dim=0)");
}

TEST(IndexThatLeavesItsTable, InOneDirection_LeavesNoiseUndecided) {
  for (const std::string& index : {kCasts.high, kCasts.low}) {
    const Outcome outcome = signs_of_noise(index);
    EXPECT_TRUE(outcome.findings.empty()) << index;
    ASSERT_EQ(outcome.undecided.size(), 1U) << index;
    EXPECT_EQ(outcome.undecided[0].name, "y");
    EXPECT_TRUE(outcome.notes.empty()) << outcome.notes[0];
  }
}

TEST(IndexThatLeavesItsTable, BeforeABug_DoesNotHideIt) {
  for (const std::string& index : {kCasts.high, kCasts.low}) {
    const Outcome outcome = outcome_of(
        index, "all_reduce(sum(x, dim=0), sum, group=tp) + 1e-9 * index(tp)", "sum(x, dim=0)");
    ASSERT_EQ(outcome.findings.size(), 1U) << index;
    EXPECT_EQ(outcome.findings[0].verdict, Verdict::wrong_values);
    EXPECT_EQ(outcome.findings[0].name, "y");
    EXPECT_TRUE(outcome.notes.empty());
  }
}

TEST(DirectionThatCannotBeRun, IsReportedWithItsValues) {
  EXPECT_EQ(
      signs_of_noise(kComparisons.high).notes,
      std::vector<std::string>{"the movement of y is not measured with rounding up: "
                               "embedding: index 8 is out of range for 8 rows; other inputs may "
                               "allow it"});
  EXPECT_EQ(signs_of_noise(kComparisons.low).notes,
            std::vector<std::string>{
                "the movement of y is not measured with rounding down and toward zero: "
                "embedding: index -1 is out of range for 8 rows; other inputs may allow it"});
}

}  // namespace
}  // namespace shardproof::other_roundings_test
