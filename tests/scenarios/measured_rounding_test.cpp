// Tests the comparison of values of two runs by their measured rounding: class of distance and
// cause.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/tests/scenarios/recorded_runs.h"

namespace shardproof::measured_rounding_test {
namespace {

TEST(MeasuredRounding, OtherReductionOrder_IsTheCause_AlsoOfLaterValues) {
  const RunComparison comparison =
      compare_runs(runs_of(mlp(), "rank").at(0), runs_of(mlp(), "tree").at(0));
  EXPECT_TRUE(comparison.agrees());
  EXPECT_GT(comparison.count(Cause::reduction_order), 0);
  EXPECT_EQ(comparison.count(ValueMatch::wrong), 0);
  for (const int line : {3, 4}) {
    EXPECT_EQ(worst(comparison, line).match, ValueMatch::within_rounding);
    EXPECT_EQ(worst(comparison, line).cause, Cause::reduction_order);
  }
  EXPECT_THROW(worst(comparison, 1), std::out_of_range);
}

// Returns the same run with another last bit in an element of y.
RecordedRun with_another_bit(RecordedRun run) {
  RecordedValue& y = value_of(run, "y");
  y.parts[0].tensor = contiguous_copy(y.parts[0].tensor);
  set_element(y, 9, std::nextafter(static_cast<float>(element(y, 9)), 1e9F));
  return run;
}

TEST(MeasuredRounding, OtherBits_InOneReductionOrder_AreABug) {
  const RecordedRun run = runs_of(mlp()).at(0);
  const RunComparison comparison = compare_runs(run, with_another_bit(run));
  EXPECT_FALSE(comparison.agrees());
  EXPECT_EQ(worst(comparison, 3).match, ValueMatch::within_rounding);
  EXPECT_EQ(worst(comparison, 3).cause, Cause::bug);
}

TEST(MeasuredRounding, WrongElement_IsReportedWithItsOwners) {
  RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun other = run;
  RecordedValue& h = value_of(other, "h");
  h.parts[0].tensor = contiguous_copy(h.parts[0].tensor);
  set_element(h, 9 * 32 + 17, 1000);
  const RunComparison comparison = compare_runs(run, other);
  const ValueDifference difference = worst(comparison, 1);
  EXPECT_EQ(difference.match, ValueMatch::wrong);
  EXPECT_EQ(difference.cause, Cause::bug);
  EXPECT_EQ(difference.index, (Dims{9, 17}));
  EXPECT_EQ(difference.owners, Lanes::one(6));  // dp=1 has rows 8-15, tp=2 columns 16-23
  EXPECT_EQ(difference.elements, 1);
}

TEST(MeasuredRounding, ProductsInFewerBits_AreNotABug) {
  RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun rounded = run;
  RecordedValue& h = value_of(rounded, "h");
  h.parts[0].tensor = contiguous_copy(h.parts[0].tensor);
  int64_t at = 0;
  while (std::abs(element(h, at)) < 1) ++at;
  set_element(h, at, element(h, at) * (1 + std::ldexp(1.0, -11)));
  EXPECT_EQ(worst(compare_runs(run, rounded), 1).cause, Cause::bug);
  rounded.environment = {{"matmul", "tf32"}};
  EXPECT_EQ(worst(compare_runs(run, rounded), 1).cause, Cause::precision);
  set_element(h, at, element(h, at) * 100);
  EXPECT_EQ(worst(compare_runs(run, rounded), 1).cause, Cause::bug);
}

TEST(MeasuredRounding, StatedPrecision_WidensTheRounding) {
  const RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun rounded = with_another_bit(run);
  rounded.environment = {{"gpu", "one"}, {"matmul", "full"}};
  EXPECT_EQ(worst(compare_runs(run, rounded), 3).cause, Cause::reduction_order);
  rounded.environment = {{"gpu", "one"}, {"matmul", "tf32"}};
  EXPECT_EQ(worst(compare_runs(run, rounded), 3).match, ValueMatch::within_rounding);
  EXPECT_EQ(worst(compare_runs(run, rounded), 3).cause, Cause::precision);
}

Scenario sum_of_ranks(const char* dtype, int size) {
  constexpr const char* kText = R"json({{"version": 1, "mesh": "tp=4", "dtype": "{}",
    "tensors": {{"x": {{"shape": [64], "fill": "normal(0, {})"}}}},
    "ranks": {{"all": ["y = all_reduce(x * (1.3 - rank), sum)"]}}}})json";
  return load_text(fmt::format(kText, dtype, size), "r.json");
}

TEST(MeasuredRounding, Rounding_OfARankProgramWithoutATruth_IsMeasured) {
  const Scenario scenario = sum_of_ranks("f32", 1);
  const RecordedRun run = runs_of(scenario, "rank").at(0);
  RecordedRun other = runs_of(scenario, "tree(nodes=2)").at(0);
  const RunComparison comparison = compare_runs(run, other);
  const ValueDifference difference = worst(comparison, 1);
  EXPECT_EQ(difference.match, ValueMatch::within_rounding);
  EXPECT_EQ(difference.cause, Cause::reduction_order);
  EXPECT_TRUE(difference.local);
  ASSERT_TRUE(difference.rounding);
  EXPECT_LT(*difference.rounding, 1e-5);
  EXPECT_LE(difference.ulps, 64);
  const double apart = std::abs(std::stod(difference.got_a) - std::stod(difference.got_b));
  EXPECT_NEAR(difference.rounding_factor, apart / *difference.rounding, 0.05);

  RecordedValue& y = value_of(other, "y");
  set_element(y, 7, element(y, 7) + 1e-4);
  const RunComparison wrong = compare_runs(run, other);
  EXPECT_EQ(worst(wrong, 1).match, ValueMatch::wrong);
  EXPECT_EQ(worst(wrong, 1).cause, Cause::bug);
  EXPECT_EQ(worst(wrong, 1).index, Dims{7});
}

// A sum that overflows in one order may be small in another.
TEST(MeasuredRounding, SumThatOverflowsInOneOrder_IsNotDecided) {
  const Scenario scenario = sum_of_ranks("f16", 20000);
  const RecordedRun a = runs_of(scenario, "rank").at(0);
  const RecordedRun b = runs_of(scenario, "tree(nodes=2)").at(0);
  for (const auto& [first, second] : {std::pair(a, b), std::pair(b, a)}) {
    const RunComparison comparison = compare_runs(first, second);
    EXPECT_EQ(worst(comparison, 1).match, ValueMatch::not_decided);
    EXPECT_EQ(worst(comparison, 1).cause, Cause::unknown);
  }
}

// --- measured rounding ---------------------------------------------------------------------------

// Tests kWithinRounding and kNotDecided element by element.
TEST(MeasuredRounding, Match_FollowsFromDistanceByRounding) {
  RecordedRun a = runs_of(mlp(), "rank").at(0);
  const RecordedValue known = value_of(a, "y");
  const double rounding = known.rounding.at(9), before = element(known, 9);
  ASSERT_GT(rounding, 0);
  const std::vector<std::pair<double, ValueMatch>> cases = {{1.5, ValueMatch::within_rounding},
                                                            {7, ValueMatch::within_rounding},
                                                            {10, ValueMatch::not_decided},
                                                            {60, ValueMatch::not_decided},
                                                            {70, ValueMatch::wrong},
                                                            {1e9, ValueMatch::wrong}};
  for (const auto& [times, match] : cases) {
    RecordedRun b = a;
    b.order = "tree";
    RecordedValue& y = value_of(b, "y");
    y.parts[0].tensor = contiguous_copy(y.parts[0].tensor);
    set_element(y, 9, before + times * rounding);
    const ValueDifference difference = worst(compare_runs(a, b), 3);
    EXPECT_EQ(difference.match, match) << times;
    EXPECT_NEAR(difference.rounding_factor, times, 0.6 + 1e-6 * times);
    EXPECT_EQ(difference.cause, match == ValueMatch::within_rounding ? Cause::reduction_order
                                : match == ValueMatch::not_decided   ? Cause::unknown
                                                                     : Cause::bug);
    EXPECT_EQ(difference.elements, 1);
    // The larger of both roundings counts.
    y.rounding.assign(y.rounding.size(), 0);
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, match) << times;
    EXPECT_EQ(worst(compare_runs(b, a), 3).match, match) << times;
    y.rounding.assign(y.rounding.size(), 1e30);
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, ValueMatch::within_rounding) << times;
    // An unmeasured rounding is ignored; if both are unmeasured, the value is not decided.
    y.measured = false;
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, match) << times;
    value_of(a, "y").measured = false;
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, ValueMatch::not_decided) << times;
    value_of(a, "y").measured = true;
  }
}

TEST(MeasuredRounding, ExactValue_HasNoRounding) {
  RecordedRun a = runs_of(load_text(R"json({"version": 1, "mesh": "tp=2",
      "tensors": {"x": {"shape": [4, 4], "placements": "tp:S(0)"},
                  "i": {"shape": [4], "dtype": "i64"}},
      "program": ["y = sum(x, dim=0)", "n = i * 3", "h = x * 0.1"]})json",
                                    "exact.json"))
                      .at(0);
  for (const char* name : {"y", "n"}) {
    EXPECT_TRUE(value_of(a, name).measured) << name;
    EXPECT_TRUE(value_of(a, name).rounding.empty()) << name;
    RecordedRun b = a;
    b.order = "tree";
    RecordedValue& value = value_of(b, name);
    value.parts[0].tensor = contiguous_copy(value.parts[0].tensor);
    value.parts[0].tensor.mutate()[0] ^= std::byte{1};
    const ValueDifference difference = worst(compare_runs(a, b), name[0] == 'y' ? 1 : 2);
    EXPECT_EQ(difference.match, ValueMatch::wrong) << name;
    EXPECT_EQ(difference.rounding, 0.0) << name;
    EXPECT_TRUE(std::isinf(difference.rounding_factor)) << name;
  }
  EXPECT_FALSE(value_of(a, "h").rounding.empty());
}

// The index is out of range in f64 only.
TEST(MeasuredRounding, ProgramThatCannotRunInF64_IsMeasuredInItsOwnDtypes) {
  RecordedRun a = runs_of(load_text(R"json({"version": 1, "mesh": "tp=2", "dtype": "bf16",
      "tensors": {"w": {"shape": [257, 4], "fill": "normal(0, 1)"},
                  "x": {"shape": [1], "fill": "zeros"}},
      "program": ["i = cast(x + 257, i64)", "y = embedding(i, w)", "z = y * 0.3 + 0.1"]})json",
                                    "index.json"))
                      .at(0);
  for (const char* name : {"y", "z"}) EXPECT_TRUE(value_of(a, name).measured) << name;
  EXPECT_LT(value_of(a, "y").rounding.empty() ? 0 : value_of(a, "y").rounding.at(0), 0.1);
}

}  // namespace
}  // namespace shardproof::measured_rounding_test
