// Tests the laws of judging, on a hundredth of the programs that `shardproof check-judging` counts.
// Honest programs have no finding and very few undecided values. A planted error is found on its
// line and nowhere else. Its clean twin has no finding.
#include <gtest/gtest.h>

#include "shardproof/engine/generate/judging_counts.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::judging_laws_test {
namespace {

constexpr uint64_t kSeed = 18;
constexpr int64_t kHonest = kFewDraws ? 40 : 1000, kPlanted = kFewDraws ? 1 : 10;

std::string describe(const std::vector<JudgingFailure>& failures) {
  std::string text;
  for (const JudgingFailure& failure : failures)
    if (text.size() < 4000)
      text += fmt::format("{}: seed {}{}\n{}\n", failure.what, failure.seed,
                          failure.planted ? fmt::format(" {}", name(*failure.planted)) : "",
                          failure.message);
  return text;
}

TEST(HonestPrograms, WhenJudged_HaveNoFinding) {
  JudgingOptions options;
  options.seed = kSeed;
  options.honest = kHonest;
  const JudgingCounts counts = count_judging(options, builtin_registries());
  EXPECT_EQ(counts.honest.programs, kHonest);
  EXPECT_GT(counts.honest.values, 10 * kHonest);
  EXPECT_EQ(counts.honest.false_findings, 0) << describe(counts.failures);
  EXPECT_EQ(counts.honest.errors, 0) << describe(counts.failures);
  EXPECT_LT(counts.honest.undecided_share(), kMostUndecided);
}

class PlantedErrors : public ::testing::TestWithParam<DType> {};

TEST_P(PlantedErrors, WhenJudged_AreFoundOnTheirLine) {
  JudgingOptions options;
  options.seed = kSeed;
  options.planted = kPlanted;
  options.programs.dtype = GetParam();
  const JudgingCounts counts = count_judging(options, builtin_registries());
  ASSERT_EQ(counts.planted.size(), 1U);
  EXPECT_EQ(counts.planted[0].programs, kPlanted);
  EXPECT_EQ(counts.planted[0].found, kPlanted) << describe(counts.failures);
  EXPECT_EQ(counts.planted[0].clean_twins, kPlanted) << describe(counts.failures);
}

INSTANTIATE_TEST_SUITE_P(InEachFloat, PlantedErrors,
                         ::testing::Values(DType::f32, DType::f64, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace shardproof::testing::judging_laws_test
