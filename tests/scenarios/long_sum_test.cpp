// Sums in narrow dtypes. They are not files of the corpus, because their errors depend on the order
// of addition, which real processes choose.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof::long_sum_test {
namespace {

// Runs a file with one finding, as it expects, and returns how often the finding has the line.
int64_t count_of_line(const char* text, const char* line) {
  const Registries registries{builtin_ops(), builtin_backends()};
  const RunResult result = run_scenarios({load_text(text, "sum.json")}, {""}, {}, registries);
  EXPECT_EQ(result.unexpected_results(), 0);
  const std::vector<Finding>& findings = result.scenarios[0].cases[0].phases[0].outcome.findings;
  EXPECT_EQ(findings.size(), 1U);
  const std::vector<std::string>& details = findings.at(0).details;
  return std::count(details.begin(), details.end(), line);
}

TEST(LongSum, InRankOrder_IsImpreciseAndNamesItsCause) {
  // The sum of bf16 ones of 2,048 ranks no longer grows at 256.
  const char* text = R"json({"version": 1, "mesh": "dp=2048",
      "tensors": {"x": {"shape": [2048], "dtype": "bf16", "placements": "S(0)", "fill": "ones"}},
      "ranks": {"all": ["y = all_reduce(sum(x), sum, group=dp)"]},
      "truth": ["y = sum(x)"], "outputs": {"y": "R"},
      "expect": {"verdict": "imprecise", "line": 1, "name": "y",
                 "precision": {"y": "<= 100"}}})json";
  EXPECT_EQ(
      count_of_line(text, "cause   line 1 adds 2,048 values over dp in bf16 and rounds after each"),
      1);
}

TEST(LongSum, AverageWhoseSumOverflows_NamesTheOrderThatDoesNot) {
  const char* text = R"json({"version": 1, "mesh": "dp=8",
      "tensors": {"g": {"shape": [4], "dtype": "f16", "placements": "R", "fill": "const(30000)"}},
      "ranks": {"all": ["y = all_reduce(g, avg, group=dp)"]},
      "truth": ["y = g * 1"], "outputs": {"y": "R"},
      "expect": {"verdict": "imprecise", "line": 1, "name": "y"}})json";
  EXPECT_EQ(
      count_of_line(text,
                    "cause   line 1: the sum of the avg over dp passes 65504, the largest f16, "
                    "on ranks 0-7; --order ring multiplies by 1/8 first, as NCCL does"),
      1);
}

}  // namespace
}  // namespace shardproof::long_sum_test
