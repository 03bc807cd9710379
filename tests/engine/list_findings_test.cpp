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

TEST(ListFindings, IndependentValues_StandAlone) {
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

}  // namespace
}  // namespace shardproof::list_findings_test
