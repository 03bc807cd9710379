// Tests which wrong values are findings of their own, and which are listed under another one.
#include "shardproof/engine/check/list_findings.h"

#include <gtest/gtest.h>

namespace shardproof::list_findings_test {
namespace {

using Lines = std::vector<std::string>;

ExplainedValue wrong(int line, const std::string& name, const std::string& instance = "") {
  ExplainedValue value;
  value.finding.verdict = Verdict::wrong_values;
  value.finding.line = line;
  value.finding.name = name;
  value.finding.instance = instance;
  return value;
}

TEST(ListFindings, IndependentValues_HaveAFindingEach) {
  const std::vector<Finding> findings = list_findings({wrong(2, "b"), wrong(1, "a")});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].name, "a");
  EXPECT_EQ(findings[0].details, Lines{});
}

TEST(ListFindings, OtherPasses_AreListedOnce) {
  const std::vector<Finding> findings =
      list_findings({wrong(1, "", "i=0"), wrong(1, "", "i=1"), wrong(1, "", "i=1")});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].details, (Lines{"also wrong in passes i=1"}));
}

TEST(ListFindings, UnnamedValuesOfOneLine_AreCounted) {
  const std::vector<Finding> findings =
      list_findings({wrong(3, ""), wrong(3, ""), wrong(3, ""), wrong(3, "g"), wrong(4, "")});
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].details, (Lines{"also wrong: 2 more values inside the line"}));
  EXPECT_EQ(findings[1].name, "g");
  EXPECT_EQ(findings[2].line, 4);
}

TEST(ListFindings, ConsequencesOfAListedValue_GoUnderItsFinding) {
  ExplainedValue later = wrong(5, "z");
  later.consequence_of = 1;
  const std::vector<Finding> findings = list_findings({wrong(3, ""), wrong(3, ""), later});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].details,
            (Lines{"also wrong, computed from it: z", "also wrong: 1 more value inside the line"}));
}

// Returns a wrong value whose cause makes these values right.
ExplainedValue caused(int line, const std::string& name, const std::string& cause,
                      const std::set<std::string>& made_right) {
  ExplainedValue value = wrong(line, name);
  value.key = name;
  value.made_right = made_right;
  value.finding.headline = name + " is wrong";
  if (!cause.empty()) value.finding.details = {"cause   " + cause};
  if (!cause.empty()) value.finding.fix = "fix of " + cause;
  return value;
}

TEST(ListFindings, ValuesOfOneCause_AreOneFindingAtTheFirstLine) {
  const std::vector<Finding> findings =
      list_findings({caused(5, "a", "bias", {"a", "b"}), caused(3, "b", "", {})});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].name, "b");
  EXPECT_EQ(findings[0].details, (Lines{"cause   bias", "also wrong   line 5   a is wrong"}));
  EXPECT_EQ(findings[0].fix, "fix of bias");
}

TEST(ListFindings, CauseOfTheMostValues_IsPrinted) {
  const std::vector<Finding> findings =
      list_findings({caused(1, "a", "of one", {"a"}), caused(2, "b", "of both", {"a", "b"})});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].name, "a");
  EXPECT_EQ(findings[0].details, (Lines{"cause   of both", "also wrong   line 2   b is wrong"}));
}

TEST(ListFindings, ValueThatTheCauseLeavesWrong_IsAnotherFinding) {
  const std::vector<Finding> findings =
      list_findings({caused(1, "a", "bias", {"a", "b"}), caused(1, "b", "", {}),
                     caused(1, "c", "", {}), caused(2, "d", "group", {"d"})});
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].details, (Lines{"cause   bias", "also wrong   b is wrong"}));
  EXPECT_EQ(findings[1].name, "c");
  EXPECT_EQ(findings[2].fix, "fix of group");
}

TEST(ListFindings, ResultsOfOneLineWithoutCauses_AreOneFinding) {
  const std::vector<Finding> findings =
      list_findings({caused(4, "w", "", {}), caused(4, "m", "", {}), caused(5, "n", "", {})});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].details, Lines{"also wrong   m is wrong"});
}

TEST(ListFindings, ConsequencesOfAValueWithACommonCause_GoUnderItsFinding) {
  ExplainedValue later = wrong(6, "n");
  later.consequence_of = 1;
  const std::vector<Finding> findings =
      list_findings({caused(1, "a", "bias", {"a", "b"}), caused(2, "b", "", {}), later});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].details.back(), "also wrong, computed from them: n");
}

}  // namespace
}  // namespace shardproof::list_findings_test
