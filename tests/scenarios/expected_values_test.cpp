// Tests `values` of an expectation. They are compared with the whole value if placements are known,
// else with the value of every rank that holds the name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof::expected_values_test {
namespace {

struct Program {
  std::string tensor, line, outputs;
};

// Returns the unmet expectation of a case, or "".
std::string report_of(const Program& program, const std::string& values) {
  const Registries registries{builtin_ops(), builtin_backends()};
  const std::string text = fmt::format(
      R"json({{"version": 1, "mesh": "dp=2, tp=2", "tensors": {{"x": {{{}}}}},
         "ranks": {{"all": ["{}"]}}, "outputs": {{{}}}, "expect": {{"values": {{{}}}}}}})json",
      program.tensor, program.line, program.outputs, values);
  const RunResult result = run_scenarios({load_text(text, "f.json")}, {""}, {}, registries);
  return result.exit_code() == 0 ? "" : text_report(result, {});
}

void expect_told(const std::string& report, const std::string& text) {
  EXPECT_NE(report.find(text), std::string::npos) << report;
}

const char* const kCut = R"json("shape": [4], "placements": "tp:S(0)", "fill": "iota")json";
const char* const kSame = R"json("shape": [2], "fill": "ones")json";
const char* const kParts = R"json("shape": [2], "placements": "tp:P(sum)", "fill": "ones")json";

TEST(ExpectedValues, ValuesOfAnOutput_WithoutTruth_AreThoseOfTheWhole) {
  const Program doubled{kCut, "y = x * 2", R"json("y": "tp:S(0)")json"};
  EXPECT_EQ(report_of(doubled, R"("y": [0, 2, 4, 6])"), "");
}

TEST(ExpectedValues, ValuesOfAnotherName_MustBeOnEveryHolder) {
  EXPECT_EQ(report_of({kSame, "y = x * 5", ""}, R"("y": [5, 5])"), "");
  expect_told(report_of({kSame, "y = x * (1 + index(tp))", ""}, R"("y": 1)"),
              "y[0] on rank 1: expected 1, got 2");
}

TEST(ExpectedValues, ValuesOfATensor_AreThoseOfEachReplica) {
  EXPECT_EQ(report_of({kCut, "y = x", ""}, R"("x": [0, 1, 2, 3])"), "");
  EXPECT_EQ(report_of({kCut, "mul_(x, 3)", ""}, R"("x": [0, 3, 6, 9])"), "");
  expect_told(report_of({kCut, "mul_(x, 1 + index(dp))", ""}, R"("x": [0, 1, 2, 3])"),
              "x[1] on rank 2: expected 1, got 2");
}

TEST(ExpectedValues, ValuesReducedInPlace_AreThoseOfEachRank) {
  EXPECT_EQ(report_of({kParts, "y = x * 2", ""}, R"("x": 1)"), "");
  EXPECT_EQ(report_of({kParts, "all_reduce_(x, sum, group=tp)", ""}, R"("x": 1)"), "");
}

TEST(ExpectedValues, Parts_HaveTheSizesOfTheirPlacements) {
  const std::string line = "y = x[0:1 + index(tp)] * 2";
  const char* const sizes = R"json("y": "tp:S(0, sizes=[1, 2])")json";
  EXPECT_EQ(report_of({kCut, line, sizes}, R"("y": [0, 4, 6])"), "");
  expect_told(report_of({kCut, line, R"json("y": "tp:S(0)")json"}, ""),
              "y has shape [1] on ranks 0 2; [3] placed as tp:S(0) has shape [2] there");
}

// Runs y = relu(x) of x[4, 4], on one device or as the truth of a line of all ranks.
RunResult run_relu(const std::string& expect, const std::string& line = "") {
  std::string program = R"json("program": ["y = relu(x)"])json";
  if (!line.empty())
    program = fmt::format(
        R"json("truth": ["y = relu(x)"], "ranks": {{"all": ["{}"]}}, "outputs": {{"y": "tp:S(0)"}})json",
        line);
  const std::string text = fmt::format(
      R"json({{"version": 1, "mesh": "tp=2", "tensors": {{"x": {{"shape": [4, 4],
         "placements": "tp:S(0)", "fill": "iota"}}}}, {}, "expect": {{{}}}}})json",
      program, expect);
  return run_scenarios({load_text(text, "f.json")}, {""}, {},
                       Registries{builtin_ops(), builtin_backends()});
}

TEST(ExpectedValues, ThatNoRunCanHave_AreBadInput) {
  const struct {
    const char *expect, *message;
  } kCases[] = {
      {R"("values": {"y": [1, 2]})",
       "/expect/values/y: expected values of shape [4, 4], as y is f32[4, 4]; found values of "
       "shape [2]"},
      {R"("values": {"x": [[0, 1, 2, 3]]})",
       "/expect/values/x: expected values of shape [4, 4], as x is f32[4, 4]; found values of "
       "shape [1, 4]"},
      {R"("values": {"y": {"shape": [0, 4], "values": []}})", "found values of shape [0, 4]"},
      {R"("values": {"y": "1+2j"})",
       "/expect/values/y: expected real numbers, as y is f32; found complex ones"},
      {R"("local": {"y": {"all": [4]}})",
       "/expect/local/y/all: expected local shapes of y with 2 dims, found [4] with 1"},
      {R"("local": {"y": {"all": [2, 4, 1]}})",
       "/expect/local/y/all: expected local shapes of y with 2 dims, found [2, 4, 1] with 3"},
      {R"json("placements": {"y": "tp:S(5)"})json",
       "/expect/placements/y: y is f32[4, 4]: dim 5 is out of range for a tensor of 2 dims"},
  };  // namespace
  for (const auto& one : kCases) {
    const RunResult result = run_relu(one.expect);
    EXPECT_EQ(result.exit_code(), 2) << one.expect;
    expect_told(text_report(result, {}), one.message);
    expect_told(text_report(result, {}), "f.json:");
  }
}  // namespace shardproof::expected_values_test

TEST(ExpectedValues, OfSizesThatAnotherPlacementWouldGive_AreMissed) {
  EXPECT_EQ(run_relu(R"("local": {"y": {"all": [4, 2]}})").exit_code(), 1);
  EXPECT_EQ(run_relu(R"("local": {"y": {"all": [2, 4]}})").exit_code(), 0);
}

TEST(ExpectedValues, OfAnotherShapeThanAWrongProgramGives_LeaveItsFindings) {
  const RunResult result =
      run_relu(R"("verdict": "wrong values", "values": {"y": [0, 1]})", "y = relu(x) * 2");
  EXPECT_EQ(result.exit_code(), 1);
  expect_told(text_report(result, {}), "values of y: expected shape [2], got shape [4, 4]");
}

}  // namespace
}  // namespace shardproof::expected_values_test
