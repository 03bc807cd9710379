// Tests the reports of how values were judged: imprecise values, values not decided, notes, several
// findings of one case, and findings that cases share. Outcomes are made by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "shardproof/engine/compare/precision_text.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/approval.h"

namespace shardproof::judging_report_test {
namespace {

const std::vector<std::string> kLines = {"h = x @ w1", "h = gelu(h)",
                                         "y = h @ w2", "m = y > mean(y)",
                                         "z = y * m",  "g = all_reduce(g, sum, group=dp)"};

PhaseResult phase_of(std::vector<Finding> findings) {
  PhaseResult phase;
  phase.outcome.findings = std::move(findings);
  JobListing listing;
  listing.lanes = Lanes::range(0, 4);
  listing.listing.lines = kLines;
  phase.listings = {listing};
  return phase;
}

// Marks a result as unexpected: a clean run was expected.
CaseResult case_of(const std::string& name, PhaseResult phase) {
  CaseResult result;
  result.file = "step.json";
  result.name = name;
  result.repeat = "shardproof run step.json --seed 0";
  result.phases.push_back(std::move(phase));
  if (result.leading() != nullptr) {
    result.status = CaseStatus::unexpected;
    result.phases[0].missed = {
        {"verdict", "clean", std::string(shardproof::name(result.verdict()))}};
  }
  return result;
}

RunResult run_of(std::vector<CaseResult> cases) {
  RunResult result;
  result.scenarios.push_back({"step.json", "", "one step", std::move(cases)});
  return result;
}

Finding finding_at(Verdict verdict, int line, const std::string& value) {
  Finding finding;
  finding.verdict = verdict;
  finding.line = line;
  finding.name = value;
  finding.ranks = Lanes::range(0, 4);
  return finding;
}

Finding wrong_at(int line, const std::string& value) {
  Finding finding = finding_at(Verdict::wrong_values, line, value);
  finding.headline = value + "[0] on all ranks: expected 1, got 2";
  finding.details = {fmt::format("first wrong line   {}   {}", line, kLines.at(line - 1)),
                     "3 of 64 elements are wrong"};
  return finding;
}

ValuePrecision gradient_precision() {
  return {"g", 6, "", 52314, 3.1e-3, 5.9e-8, "fp32 gradients are reduced in bf16"};
}

Finding imprecise_gradient() {
  Finding finding = finding_at(Verdict::imprecise, 6, "g");
  finding.headline = precision_text(gradient_precision()) + " (limit 1,024)";
  finding.details = {"first imprecise line   6   " + kLines[5],
                     "cause   fp32 gradients are reduced in bf16"};
  return finding;
}

// Returns an outcome with every kind of remark.
PhaseResult remarked() {
  PhaseResult phase = phase_of({});
  phase.outcome.undecided = {
      {"m", 4, "i=3", 3, 64, "the sign of a sum that is 0 hangs on a rounding"},
      {"", 5, "", 4096, 65536, "m is not decided"}};
  phase.outcome.precision = {gradient_precision(), {"y", 3, "i=2", 12, 1e-6, 8e-8, ""}};
  phase.outcome.notes = {"lines from 5 on are judged in their own dtypes: index 257 of 256 rows"};
  return phase;
}

TEST(Report, ImpreciseValue_IsReportedWithBothErrors) {
  PhaseResult phase = phase_of({imprecise_gradient()});
  phase.outcome.precision = {gradient_precision()};
  const RunResult result = run_of({case_of("", std::move(phase))});
  expect_approved("report/imprecise", text_report(result, {false, false, -1}));
  expect_approved("report/imprecise_json", json_report(result, {"0.0.0", {}}));
}

TEST(Report, Remarks_AreInEveryReport) {
  const RunResult result = run_of({case_of("", remarked())});
  EXPECT_EQ(result.exit_code(), 0);
  expect_approved("report/remarks", text_report(result, {false, false, -1}));
  expect_approved("report/remarks_json", json_report(result, {"0.0.0", {}}));
  expect_approved("report/remarks_junit", junit_report(result, {"0.0.0", {}}));
}

TEST(Report, RemarksOfAFailingCase_FollowItsFailureInJunit) {
  PhaseResult phase = remarked();
  phase.outcome.findings = {imprecise_gradient()};
  phase.outcome.precision[1].ratio = std::numeric_limits<double>::infinity();
  phase.outcome.precision[1].error = std::numeric_limits<double>::infinity();
  const RunResult result = run_of({case_of("", std::move(phase))});
  expect_approved("report/remarks_of_failure_junit", junit_report(result, {"0.0.0", {}}));
  const std::string json = json_report(result, {"0.0.0", {}});
  EXPECT_NE(json.find("\"ratio\": \"inf\""), std::string::npos) << json;
}

TEST(Report, ManyRemarks_AreCounted) {
  std::vector<CaseResult> cases;
  for (const char* name : {"tp=2", "tp=4"}) {
    PhaseResult phase = phase_of({});
    for (int i = 0; i < 10; ++i) {
      const std::string instance = fmt::format("i={}", i);
      phase.outcome.undecided.push_back({"m", 4, instance, 1, 64, "a tie"});
      phase.outcome.notes.push_back(fmt::format("note {} of {}", i, name));
    }
    cases.push_back(case_of(name, std::move(phase)));
  }
  expect_approved("report/many_remarks", text_report(run_of(std::move(cases)), {}));
}

TEST(Report, SeveralFindings_FirstFive_ArePrintedInFull) {
  Finding inside = wrong_at(3, "");
  inside.headline = "a value inside the line on all ranks: expected 1, got 2";
  inside.instance = "i=3";
  const std::vector<Finding> findings = {wrong_at(1, "h"), wrong_at(2, "h"),    inside,
                                         wrong_at(4, "m"), wrong_at(5, "z"),    wrong_at(6, "g"),
                                         inside,           imprecise_gradient()};
  expect_approved("report/several_findings", case_text(case_of("", phase_of(findings)), {}));
}

Finding bias_on(int ranks) {
  Finding finding = wrong_at(3, "y");
  finding.headline = fmt::format("y[0, 0] on all ranks: expected -12, got {}", 12 * ranks);
  finding.details.push_back(
      fmt::format("cause   b2 is added on each of the {} ranks of tp to a P(sum)", ranks));
  finding.fix = "add b2 after the reduction, or on one rank of tp";
  return finding;
}

std::vector<CaseResult> swept_cases() {
  std::vector<CaseResult> cases = {case_of("tp=1", phase_of({}))};
  for (int ranks = 2; ranks <= 13; ++ranks)
    cases.push_back(case_of(fmt::format("tp={}", ranks), phase_of({bias_on(ranks)})));
  Finding other_cause = bias_on(2);
  other_cause.details.back() = "cause   b1 is added on each of the 2 ranks of tp to a P(sum)";
  cases.push_back(case_of("b1=1", phase_of({other_cause})));
  cases.push_back(case_of("g=1", phase_of({bias_on(2), imprecise_gradient()})));
  return cases;
}

TEST(Report, FindingOfSeveralCases_IsPrintedOnceInText) {
  const RunResult result = run_of(swept_cases());
  EXPECT_EQ(result.unexpected_results(), 14);
  EXPECT_EQ(result.exit_code(), 1);
  expect_approved("report/shared_findings", text_report(result, {}));
  const std::string json = json_report(result, {"0.0.0", {}});
  const std::string junit = junit_report(result, {"0.0.0", {}});
  for (int ranks = 2; ranks <= 13; ++ranks) {
    const std::string got = fmt::format("got {}", 12 * ranks);
    EXPECT_NE(json.find(got), std::string::npos) << got;
    EXPECT_NE(junit.find(got), std::string::npos) << got;
  }
}

TEST(Report, ExpectedFindingOfSeveralCases_IsPrintedOnceInText) {
  std::vector<CaseResult> cases = swept_cases();
  for (CaseResult& one : cases) {
    one.expected = one.verdict();
    one.status = CaseStatus::as_expected;
    one.phases[0].missed.clear();
  }
  expect_approved("report/shared_expected", text_report(run_of(cases), {false, false, -1}));
}

// Cases with different unmet expectations are printed each.
TEST(Report, CasesWithDifferentUnmetExpectations_ArePrintedEach) {
  std::vector<CaseResult> cases = {case_of("tp=2", phase_of({bias_on(2)})),
                                   case_of("tp=4", phase_of({bias_on(4)}))};
  cases[1].phases[0].missed.push_back({"time", "< 1 us", "2 us"});
  const std::string text = text_report(run_of(cases), {});
  EXPECT_EQ(text.find("of 2 cases"), std::string::npos) << text;
  EXPECT_NE(text.find("time: expected < 1 us, got 2 us"), std::string::npos) << text;
}

}  // namespace
}  // namespace shardproof::judging_report_test
