// Runs `shardproof check-judging`: its table, exit codes, messages and saved files.
#include <gtest/gtest.h>

#include <string>

#include "shardproof/tests/cli/run_tool.h"

namespace shardproof::check_judging_test {
namespace {

TEST(CheckJudging, WithoutPrograms_PrintsEmptyTable_AndExits0) {
  const Ran ran = tool("check-judging --programs 0 --planted 0");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("false findings"), std::string::npos) << ran.out;
}

TEST(CheckJudging, OfOneSeed_PrintsTheSameTable_WithAnyNumberOfJobs) {
  const std::string words = "check-judging --seed 5 --programs 6 --planted 1 --conditioning well";
  const Ran one = tool(words + " --jobs 1"), three = tool(words + " --jobs 3");
  EXPECT_LE(one.code, 1) << one.out;
  EXPECT_EQ(one.out, three.out);
  EXPECT_NE(one.out.find("bf16"), std::string::npos) << one.out;
}

TEST(CheckJudging, WithoutTime_StartsNoProgram) {
  const Ran ran = tool("check-judging --programs 1000000 --minutes 0.000000001 --jobs 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

TEST(CheckJudging, WhereFailuresCannotBeSaved_Exits2) {
  const Ran ran = tool("check-judging --programs 1 --planted 0 --save /dev/null/x");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("/dev/null/x"), std::string::npos) << ran.out;
}

struct Refused {
  const char* words;
  const char* message;
};
class RefusedOptions : public testing::TestWithParam<Refused> {};

TEST_P(RefusedOptions, WhenGiven_Exit2_AndStateWhatIsExpected) {
  const Ran ran = tool(std::string("check-judging ") + GetParam().words);
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find(GetParam().message), std::string::npos) << ran.out;
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, RefusedOptions,
    testing::Values(Refused{"--seed -1", "--seed: expected a whole number from 0"},
                    Refused{"--programs 1.5", "--programs: expected a whole number"},
                    Refused{"--jobs 0", "--jobs: expected a whole number from 1"},
                    Refused{"--dtype i64", "--dtype: expected f64, f32, bf16 or f16"},
                    Refused{"--kind mixed", "--kind: expected global or ranks"},
                    Refused{"--conditioning bad", "--conditioning: expected whole, well"},
                    Refused{"--size 0", "--size: expected a number above 0"},
                    Refused{"--minutes soon", "--minutes: expected a number above 0"},
                    Refused{"file.json", "expected options only, found \"file.json\""},
                    Refused{"--program 3", "did you mean --programs?"}));

}  // namespace
}  // namespace shardproof::check_judging_test
